"""Asynchronous uploads of host arrays to the device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GROUPS, _GROUP_BUFFERS = 4, 6
"""A group of buffers is used again when the uploads from all of them are done. A step has up to seven uploads, and two
steps are in flight."""
_BUFFER_WORDS = 1 << 17
"""Enough for the blocks of 256 utterances that begin together, with a context of 4096."""


class Uploader:
    """Copies int64 arrays to the device in one transfer per call, through rotating pinned-memory buffers.

    On a CPU the buffers are not pinned. A buffer is replaced by a larger one when a call needs more space. All calls
    must be on the same CUDA stream.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pinned = device.type == "cuda"
        self._buffers = [self._buffer(_BUFFER_WORDS) for _ in range(_GROUPS * _GROUP_BUFFERS)]
        self._copied = [torch.cuda.Event() for _ in range(_GROUPS)] if self._pinned else None
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

    def _next_buffer(self, words: int) -> Tensor:
        group = self._index // _GROUP_BUFFERS
        self._index = (self._index + 1) % len(self._buffers)
        next_group = self._index // _GROUP_BUFFERS
        if next_group != group and self._copied is not None:
            self._copied[group].record()
            self._copied[next_group].synchronize()
        if len(self._buffers[self._index]) < words:
            self._buffers[self._index] = self._buffer(2 * words)
        return self._buffers[self._index]

    def _buffer(self, words: int) -> Tensor:
        return torch.empty(words, dtype=torch.int64, pin_memory=self._pinned)
