"""Per-utterance tensors on the device, one row per vLLM request slot, and asynchronous uploads to them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.talker.sampling import Codebook0Rules
from engine.talker.sampling_params import CodebookParams, SamplingTensors

_BUFFERS = 4
"""A step uploads at most twice, and vLLM has at most two steps in flight, so the oldest buffer is free when reused."""
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


class Slots:
    """Per-slot tensors: one row per slot, and a last row, ``scratch``, for the padding rows of a batch.

    text: int64 [rows, context + 1], the text ids paired with an utterance's frames, then text_pad. embedding:
    [rows, hidden], of the newest frame. frames_made, seeds: int64 [rows]. codebook0, residual: sampling parameters of
    codebook 0, and of codebooks 1 to 15.
    All tensors are read and written by row index, so a captured graph works for any batch.
    """

    def __init__(
        self,
        count: int,
        context: int,
        architecture: TalkerArchitecture,
        *,
        text_pad: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        rows, hidden = count + 1, architecture.transformer.hidden
        self.scratch = count
        self.context = context
        self._text_pad = text_pad
        self.rules = Codebook0Rules(architecture.vocab, architecture.ids.eos, rows, device)
        self.text = torch.full((rows, context + 1), text_pad, device=device)
        self.embedding = torch.zeros(rows, hidden, device=device, dtype=dtype)
        self.frames_made = torch.zeros(rows, dtype=torch.int64, device=device)
        self.seeds = torch.zeros(rows, dtype=torch.int64, device=device)
        self.codebook0 = SamplingTensors.of([CodebookParams()] * rows, device)
        self.residual = SamplingTensors.of([CodebookParams()] * rows, device)

    def join(
        self,
        slots: Tensor,
        seeds: Tensor,
        codebook0: SamplingTensors,
        residual: SamplingTensors,
        frames_made: Tensor,
    ) -> None:
        """Reset slots [n] for new utterances; every argument has n rows. frames_made: before a preemption, else 0."""
        self.seeds.index_copy_(0, slots, seeds)
        self.codebook0.assign(slots, codebook0)
        self.residual.assign(slots, residual)
        self.frames_made.index_copy_(0, slots, frames_made)
        self.text.index_fill_(0, slots, self._text_pad)
        self.rules.forget(slots)

    def write_text(self, indices: Tensor, ids: Tensor) -> None:
        """Write text ids [n] to ``indices`` [n], flat indices from ``text_indices``."""
        self.text.view(-1).index_copy_(0, indices, ids)

    def text_indices(self, slot: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the flat indices in ``text`` for the ids of frames ``first`` to ``first + count``.

        The last column of a row is never written and stays text_pad.
        """
        width = self.context + 1
        return slot * width + np.arange(min(first, self.context), min(first + count, self.context), dtype=np.int64)

    def newest_text(self, slots: Tensor) -> Tensor:
        """Return the text ids [n] paired with the newest frames of slots [n]."""
        return self.text[slots, (self.frames_made[slots] - 1).clamp_(0, self.context)]
