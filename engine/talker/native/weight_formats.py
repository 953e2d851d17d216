"""The weight format that the configuration and the checkpoint ask for. See ``engine.cpu.plan`` for ``auto``."""

from __future__ import annotations

import torch

from engine.config import EngineConfig
from engine.errors import SetupError
from engine.protocol.request import WeightFormat


def configured_format(
    config: EngineConfig, device: torch.device, packed: WeightFormat | None = None
) -> WeightFormat | None:
    """Return the format of the configuration, or None if it is to be measured.

    ``auto`` is measured on a CPU, and is exact elsewhere.

    packed: the format of a packed checkpoint, which has no other. Raises SetupError if the configured format is not
    that of a packed checkpoint, or needs a CPU or another dtype.
    """
    wanted = config.talker.weights
    in_float32 = device.type == "cpu" and config.dtype != "bfloat16"
    if packed is not None:
        return _check_packed(config, packed, device, runs=in_float32)
    if wanted in ("int8", "int4") and not in_float32:
        raise SetupError(
            f"engine.talker.weights: {wanted} needs a CPU and engine.dtype float32 or auto, but the device is "
            f"{device.type} and engine.dtype is {config.dtype}: set engine.talker.weights to auto or exact"
        )
    if wanted != "auto":
        return wanted
    return None if in_float32 else "exact"


def _check_packed(config: EngineConfig, packed: WeightFormat, device: torch.device, *, runs: bool) -> WeightFormat:
    """Return the format of a packed checkpoint. runs: whether quantized weights run with this device and dtype."""
    if not runs:
        raise SetupError(
            f"{config.model} is packed with {packed}, which needs a CPU and engine.dtype float32 or auto, but the "
            f"device is {device.type} and engine.dtype is {config.dtype}: set engine.model to the original checkpoint"
        )
    if config.talker.weights not in ("auto", packed):
        raise SetupError(
            f"engine.talker.weights must be auto or {packed}, the format that {config.model} is packed with, got "
            f"{config.talker.weights}: change it, or set engine.model to the original checkpoint"
        )
    return packed
