"""Selects the engine's device and dtype, and configures torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from engine.config import EngineConfig
from engine.errors import CheckpointError, SetupError
from engine.system.cores import available_cores

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_device(config: EngineConfig) -> torch.device:
    """Return the configured device. "auto" selects a GPU if torch sees one.

    Raises CheckpointError if the device is "cuda" and torch sees no GPU.
    """
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise CheckpointError(
            "device is cuda, but torch finds no GPU: install a driver, or set device to auto", code="no_device"
        )
    return torch.device(config.device)


def with_gpu(index: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of ``environment`` in which only the GPU ``index`` is visible (CUDA_VISIBLE_DEVICES).

    ``index`` counts the GPUs that are visible in ``environment``. Raises SetupError if that many are not visible.
    """
    visible = environment.get(_VISIBLE)
    if visible is None:
        return {**environment, _VISIBLE: str(index)}
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if index >= len(names):
        raise SetupError(
            f"code2wav.gpu must be less than {len(names)}, the number of GPUs in {_VISIBLE}, got {index}",
            code="no_device",
        )
    return {**environment, _VISIBLE: names[index]}


def choose_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """Return the talker's dtype. "auto" is float32 on a CPU and bfloat16 on a GPU.

    On a CPU, packed linear layers store the weights in 16 bits anyway.
    """
    if config.dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


def prepare_torch(config: EngineConfig) -> None:
    """Limit torch's threads in this process to ``threads``, or to half the cores, and disable TF32 convolutions.

    Each stage has its own thread pool. Two pools that share cores spend their time waiting for each other.
    By default a GPU uses TF32: it rounds the inputs of float32 convolutions to 10 bits of mantissa.
    """
    torch.set_num_threads(config.threads or max(1, available_cores() // 2))
    torch.backends.cudnn.allow_tf32 = False
