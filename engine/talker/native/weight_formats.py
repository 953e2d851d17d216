"""The choice of a weight format for ``talker.weights``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engine.checkpoint.architecture import TalkerArchitecture
from engine.config import EngineConfig
from engine.errors import SetupError
from engine.kernels.quantized_linear import int4_runs, int8_runs
from engine.protocol.request import FRAME_MS, WeightFormat
from engine.talker.native.frame_cost import FrameShape, frame_seconds

_REAL_TIME = 0.9
"""Maximum real-time factor with which a format holds real time. The rest is for the HTTP process."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MeasuredFormats:
    """The format that ``auto`` selects, and the milliseconds per frame of each format that was measured."""

    selected: WeightFormat
    frame_ms: Mapping[WeightFormat, float]

    def __str__(self) -> str:
        return ", ".join(f"{name} {ms:.0f} ms" for name, ms in self.frame_ms.items())


def choose_format(
    config: EngineConfig, shape: TalkerArchitecture, device: torch.device, packed: WeightFormat | None = None
) -> WeightFormat:
    """Return the format of the configuration. ``auto`` is measured on a CPU, and exact elsewhere.

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
    if not in_float32:
        return "exact"
    measured = measure_formats(FrameShape.of(shape))
    _log.info(
        "talker.weights: auto selects %s; measured per frame of %.0f ms: %s. Set engine.talker.weights to exact, int8 "
        "or int4 to force one",
        measured.selected,
        FRAME_MS,
        measured,
    )
    return measured.selected


def _check_packed(
    config: EngineConfig, packed: WeightFormat, device: torch.device, *, runs: bool
) -> WeightFormat:
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


def measure_formats(shape: FrameShape, *, every: bool = False) -> MeasuredFormats:
    """Measure exact, int8 and int4 until one holds real time, which is selected. If none does, it is the fastest.

    every: measure all formats that have kernels here. For the published models this takes two to four seconds.
    """
    runs: dict[WeightFormat, bool] = {"exact": True, "int8": int8_runs(), "int4": int4_runs()}
    measured: dict[WeightFormat, float] = {}
    selected: WeightFormat | None = None
    for name in (name for name, available in runs.items() if available):
        measured[name] = 1000 * frame_seconds(shape, name)
        if selected is None and measured[name] <= _REAL_TIME * FRAME_MS:
            selected = name
        if selected is not None and not every:
            break
    fastest: WeightFormat = min(measured, key=lambda name: measured[name])
    return MeasuredFormats(fastest if selected is None else selected, measured)
