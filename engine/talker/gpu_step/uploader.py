"""Asynchronous uploads of host arrays to the device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BUFFERS = 16
"""A call waits until the upload from its buffer is done. A step has up to six uploads, and two steps are in flight."""
_BUFFER_WORDS = 1 << 15


class Uploader:
    """Copies int64 arrays to the device in one transfer per call, through rotating pinned-memory buffers.

    On a CPU the buffers are not pinned. A buffer is replaced by a larger one when a call needs more space.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pinned = device.type == "cuda"
        self._buffers = [self._buffer(_BUFFER_WORDS) for _ in range(_BUFFERS)]
        self._copied = [torch.cuda.Event() if self._pinned else None for _ in range(_BUFFERS)]
        self._index = 0

    def __call__(self, *arrays: NDArray[np.int64]) -> list[Tensor]:
        """Return the arrays on the device, flattened. The sources are copied before this returns."""
        sizes = [array.size for array in arrays]
        uploaded = torch.empty(sum(sizes), dtype=torch.int64, device=self.device)
        self.fill(uploaded, *arrays)
        return list(uploaded.split(sizes))

    def fill(self, destination: Tensor, *arrays: NDArray[np.int64]) -> None:
        """Copy the arrays one after the other to ``destination`` [words], which they fill."""
        buffer = self._next_buffer(len(destination))
        host, offset = buffer.numpy(), 0
        for array in arrays:
            host[offset : offset + array.size] = array.ravel()
            offset += array.size
        destination.copy_(buffer[:offset], non_blocking=True)
        if (copied := self._copied[self._index]) is not None:
            copied.record()

    def _next_buffer(self, words: int) -> Tensor:
        self._index = (self._index + 1) % _BUFFERS
        if (copied := self._copied[self._index]) is not None:
            copied.synchronize()
        if len(self._buffers[self._index]) < words:
            self._buffers[self._index] = self._buffer(2 * words)
        return self._buffers[self._index]

    def _buffer(self, words: int) -> Tensor:
        return torch.empty(words, dtype=torch.int64, pin_memory=self._pinned)
