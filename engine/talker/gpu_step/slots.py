"""Per-utterance tensors on the device, one row per vLLM request slot, and asynchronous uploads to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.talker.base import Sampling
from engine.talker.sampling import Codebook0Rules

_BUFFERS = 4
"""A step uploads at most twice, and vLLM has at most two steps in flight, so the oldest buffer is free when reused."""
_WORDS = 1 << 16


class Uploader:
    """Copies int64 arrays to the device in one transfer per call, through rotating pinned-memory buffers.

    On a CPU the buffers are not pinned. A buffer is replaced by a larger one when a call needs more space.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pins = device.type == "cuda"
        self._buffers = [self._buffer(_WORDS) for _ in range(_BUFFERS)]
        self._done: list[torch.cuda.Event | None] = [None] * _BUFFERS
        self._turn = 0

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


class RowDraws(NamedTuple):
    """Sampling parameters of each row.

    temperature: float32 [rows], 0 is greedy. top_k: int64 [rows], 0 is off. top_p: float32 [rows], 1 is off.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor


def draw(logits: Tensor, draws: RowDraws, uniform: Tensor) -> Tensor:
    """Sample ids int64 [rows] from float32 logits [rows, vocab] by inverse transform of ``uniform``, float64 [rows].

    The result equals that of ``engine.talker.sampling.Sampler``, which knows the parameters on the host and skips
    operations that no row needs.
    """
    greedy = draws.temperature == 0
    scores = logits / draws.temperature.masked_fill(greedy, 1.0)[:, None]
    distribution = torch.softmax(_keep(scores, draws), -1).cumsum(-1, dtype=torch.float64)
    targets = uniform[:, None] * distribution[:, -1:]
    drawn = torch.searchsorted(distribution, targets, right=True).squeeze(-1).clamp_(max=logits.shape[-1] - 1)
    return torch.where(greedy, logits.argmax(-1), drawn)


def _keep(scores: Tensor, draws: RowDraws) -> Tensor:
    """Set scores that may not be sampled to -inf: top-k, which keeps ties, then top-p, with a single sort."""
    vocab = scores.shape[-1]
    ordered, ids = torch.sort(scores, dim=-1, stable=True)
    rank = (vocab - draws.top_k.masked_fill(draws.top_k == 0, vocab)).clamp_(0, vocab - 1)
    low = ordered < ordered.gather(-1, rank[:, None])
    mass = torch.softmax(ordered.masked_fill(low, float("-inf")), -1).cumsum(-1)
    tail = (mass <= 1 - draws.top_p[:, None]) & (draws.top_p < 1)[:, None]
    tail[:, -1:].zero_()
    return scores.masked_fill(torch.zeros_like(low).scatter(-1, ids, low | tail), float("-inf"))


_WHOLE = 3
_REAL = 5


class Slots:
    """Per-slot tensors: one row per slot, and a last row, ``scratch``, for the padding rows of a batch.

    text: the text ids paired with an utterance's frames, then text_pad. frame: the embedding of the newest frame.
    drawn: the number of frames made. whole, int64 [3, rows]: seed, top-k of codebook 0, top-k of the other codebooks.
    real, float32 [5, rows]: repetition penalty, temperature and top-p of codebook 0, then temperature and top-p of the
    other codebooks.
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
        self.frame = torch.zeros(rows, hidden, device=device, dtype=dtype)
        self.drawn = torch.zeros(rows, dtype=torch.int64, device=device)
        self.whole = torch.zeros(_WHOLE, rows, dtype=torch.int64, device=device)
        self.real = torch.ones(_REAL, rows, dtype=torch.float32, device=device)

    @staticmethod
    def parameters(sampling: Sampling) -> tuple[list[int], list[float]]:
        """Return the integer and the float parameters of a sampling, in the order that ``join`` takes."""
        first, residual = sampling.codebook0, sampling.residual
        whole = [sampling.seed, first.top_k, residual.top_k]
        real = [sampling.repetition_penalty, first.temperature, first.top_p, residual.temperature, residual.top_p]
        return whole, real

    def join(self, slots: Tensor, drawn: Tensor, whole: Tensor, real: Tensor) -> None:
        """Reset slots [n] for new utterances. drawn [n]: frames already made; whole, real [n, ...]: parameters."""
        self.whole.index_copy_(1, slots, whole.T)
        self.real.index_copy_(1, slots, real.float().T)
        self.drawn.index_copy_(0, slots, drawn)
        self.text.index_fill_(0, slots, self._text_pad)
        self.rules.forget(slots)

    def seeds(self, rows: Tensor) -> Tensor:
        """Return the seeds of ``rows``, int64 [n]."""
        return self.whole[0, rows]

    def penalty(self, rows: Tensor) -> Tensor:
        """Return the repetition penalties of ``rows``, float32 [n, 1]."""
        return self.real[0, rows][:, None]

    def draws(self, rows: Tensor) -> tuple[RowDraws, RowDraws]:
        """Return the sampling parameters of ``rows`` for codebook 0, and for the other codebooks."""
        whole, real = self.whole.index_select(1, rows), self.real.index_select(1, rows)
        return RowDraws(real[1], whole[1], real[2]), RowDraws(real[3], whole[2], real[4])

    def write_text(self, places: Tensor, ids: Tensor) -> None:
        """Write text ids [n] to ``places`` [n], flat indices from ``places_of_text``."""
        self.text.view(-1).index_copy_(0, places, ids)

    def places_of_text(self, slot: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the flat indices in ``text`` for the ids of frames ``first`` to ``first + count``.

        The last column of a row is never written and stays text_pad.
        """
        width = self.context + 1
        return slot * width + np.arange(min(first, self.context), min(first + count, self.context), dtype=np.int64)

    def text_beside_newest(self, rows: Tensor) -> Tensor:
        """Return the text ids [n] paired with the newest frames."""
        return self.text[rows, (self.drawn[rows] - 1).clamp_(0, self.context)]
