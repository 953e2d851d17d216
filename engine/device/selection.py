"""Which device and dtypes the engine uses."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from engine.config import EngineConfig
from engine.errors import CheckpointError, SetupError
from engine.system.cores import available_cores

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_device(config: EngineConfig) -> torch.device:
    """The configured device; "auto" is a GPU when torch sees one. Raises CheckpointError if it is not there."""
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise CheckpointError("device is cuda, but torch sees no GPU here", code="no_device")
    return torch.device(config.device)


def with_gpu(index: int, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that sees but one GPU, the one that is ``index`` for whoever has ``environment``.

    Raises SetupError if that one sees fewer.
    """
    seen = environment.get(_VISIBLE)
    if seen is None:
        return {**environment, _VISIBLE: str(index)}
    names = [name.strip() for name in seen.split(",") if name.strip()]
    if index >= len(names):
        raise SetupError(f"code2wav.gpu is {index}, but {_VISIBLE} names {len(names)}", code="no_device")
    return {**environment, _VISIBLE: names[index]}


def choose_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """The talker's: float32 on a CPU, where its weights are packed at half width anyway; bfloat16 on a GPU."""
    if config.dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


def prepare_torch(config: EngineConfig) -> None:
    """Bound torch's threads in this process, what is configured or half the cores, and keep float32 exact.

    Each stage has a team of threads of its own, and two teams on the same cores spend their time waiting for each
    other. A GPU would by default round the inputs of float32 convolutions to 10 bits.
    """
    torch.set_num_threads(config.threads or max(1, available_cores() // 2))
    torch.backends.cudnn.allow_tf32 = False
