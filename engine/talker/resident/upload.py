"""Numbers from the host to the device, without waiting for it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BUFFERS = 4
"""A step uploads twice at most, and vLLM has two under way at most: the oldest is free again when it is needed."""
_WORDS = 1 << 16


class Uploader:
    """Copies int64 arrays, all of a step in one transfer, through pinned buffers that take turns.

    On a CPU the copies are plain. A buffer is made anew, larger, when a step has more than it ever had.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pins = device.type == "cuda"
        self._buffers = [self._buffer(_WORDS) for _ in range(_BUFFERS)]
        self._done: list[torch.cuda.Event | None] = [None] * _BUFFERS
        self._turn = 0

    def __call__(self, *arrays: NDArray[np.int64]) -> list[Tensor]:
        """The arrays on the device, flat. They are copied before this returns."""
        sizes = [array.size for array in arrays]
        buffer = self._next_buffer(sum(sizes))
        offset = 0
        for array in arrays:
            buffer[offset : offset + array.size].numpy()[:] = array.ravel()
            offset += array.size
        uploaded = torch.empty(offset, dtype=torch.int64, device=self._device)
        uploaded.copy_(buffer[:offset], non_blocking=True)
        if self._pins:
            self._done[self._turn] = torch.cuda.current_stream().record_event()
        return list(uploaded.split(sizes))

    def _next_buffer(self, words: int) -> Tensor:
        self._turn = (self._turn + 1) % _BUFFERS
        done = self._done[self._turn]
        if done is not None:
            done.synchronize()
        if len(self._buffers[self._turn]) < words:
            self._buffers[self._turn] = self._buffer(2 * words)
        return self._buffers[self._turn]

    def _buffer(self, words: int) -> Tensor:
        return torch.empty(words, dtype=torch.int64, pin_memory=self._pins)
