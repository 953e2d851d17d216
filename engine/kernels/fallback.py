"""Decides whether plain PyTorch can replace a kernel that failed, and gives the reason for the log."""

from __future__ import annotations

import torch

from engine.errors import EngineError, EngineFailed


def reason_for_fallback(error: Exception) -> str:
    """Return one line that says why kernels could not be compiled, launched or captured.

    Call it in the ``except`` block that caught ``error``. Raises ``error`` when plain PyTorch would fail too: an engine
    error such as a bad checkpoint, or out of memory. Raises EngineFailed when CUDA no longer works in this process.
    """
    if isinstance(error, EngineError | torch.OutOfMemoryError):
        raise error
    require_gpu(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def require_gpu(error: Exception | None = None) -> None:
    """Synchronize with the GPU. Raises EngineFailed when a kernel has failed: all later CUDA calls then fail too.

    error: the error seen before, if any. The message of EngineFailed quotes it.
    """
    if not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as failure:
        lines = str(error or failure).strip().splitlines()
        raise EngineFailed(
            "a kernel failed on the GPU, so all later CUDA calls of this process fail too; restart the engine process: "
            f"{lines[0] if lines else type(failure).__name__}"
        ) from failure
