"""Selects the engine's device and dtype, and configures torch."""

from __future__ import annotations

import torch

from engine.config import EngineConfig
from engine.errors import CheckpointError
from engine.system.cores import stage_threads


def choose_device(config: EngineConfig) -> torch.device:
    """Return the configured device. "auto" selects a GPU if torch sees one, or if ``gpu`` is set.

    Raises CheckpointError if a GPU is configured and torch sees none.
    """
    wanted = "cuda" if config.gpu is not None else config.device
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted == "cuda" and not torch.cuda.is_available():
        setting = "device is cuda" if config.gpu is None else f"gpu is {config.gpu}"
        raise CheckpointError(
            f"{setting}, but torch finds no such GPU: install a driver, or leave device and gpu unset", code="no_device"
        )
    return torch.device(wanted)


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
    torch.set_num_threads(stage_threads(config.threads))
    torch.backends.cudnn.allow_tf32 = False
