"""Asynchronous uploads of host arrays to the device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BUFFERS = 4
"""A call waits until the upload from its buffer is done. With this many it hardly ever has to."""
_BUFFER_WORDS = 1 << 16


class Uploader:
    """Copies int64 arrays to the device in one transfer per call, through rotating pinned-memory buffers.

    On a CPU the buffers are not pinned. A buffer is replaced by a larger one when a call needs more space.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pinned = device.type == "cuda"
        self._buffers = [self._buffer(_BUFFER_WORDS) for _ in range(_BUFFERS)]
        self._copied: list[torch.cuda.Event | None] = [None] * _BUFFERS
        self._index = 0

    def __call__(self, *arrays: NDArray[np.int64]) -> list[Tensor]:
        """Return the arrays on the device, flattened. The sources are copied before this returns."""
        sizes = [array.size for array in arrays]
        buffer = self._next_buffer(sum(sizes))
        offset = 0
        for array in arrays:
            buffer[offset : offset + array.size].numpy()[:] = array.ravel()
            offset += array.size
        uploaded = torch.empty(offset, dtype=torch.int64, device=self._device)
        uploaded.copy_(buffer[:offset], non_blocking=True)
        if self._pinned:
            self._copied[self._index] = torch.cuda.current_stream().record_event()
        return list(uploaded.split(sizes))

    def _next_buffer(self, words: int) -> Tensor:
        self._index = (self._index + 1) % _BUFFERS
        copied = self._copied[self._index]
        if copied is not None:
            copied.synchronize()
        if len(self._buffers[self._index]) < words:
            self._buffers[self._index] = self._buffer(2 * words)
        return self._buffers[self._index]

    def _buffer(self, words: int) -> Tensor:
        return torch.empty(words, dtype=torch.int64, pin_memory=self._pinned)
