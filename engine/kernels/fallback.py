"""Whether plain torch can do what a kernel could not, and what the log says of it."""

from __future__ import annotations

import torch

from engine.errors import EngineError, EngineFailed


def reason_for_plain(error: Exception) -> str:
    """One line: why kernels could not be compiled, launched or captured, to be called where that was caught.

    Raises ``error`` where plain torch would meet it too: a checkpoint's fault, or no memory. Raises EngineFailed where
    the GPU answers this process no more.
    """
    if isinstance(error, EngineError | torch.OutOfMemoryError):
        raise error
    require_gpu(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def require_gpu(error: Exception | None = None) -> None:
    """Wait for the GPU's work. Raises EngineFailed where a kernel has failed: all that CUDA is asked then fails too.

    error: what was seen before, if anything was.
    """
    if not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as failure:
        lines = str(error or failure).strip().splitlines()
        raise EngineFailed(
            "a kernel failed on the GPU, which ends every later call of this process too; "
            f"only a new engine process can go on: {lines[0] if lines else type(failure).__name__}"
        ) from failure
