"""What a frame needs of each utterance: tensors with a row for each of vLLM's request slots."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.architecture import TalkerArchitecture
from engine.talker.base import Sampling
from engine.talker.resident.row_draws import RowDraws
from engine.talker.sampling import Codebook0Rules

_WHOLE = 3
_REAL = 5


class Slots:
    """One row a slot, and a last one, ``scratch``, for rows of a batch that are nobody's.

    text: the ids beside an utterance's frames, text_pad where there are no more; frame: the newest frame's embedding;
    drawn: frames drawn. whole int64 [3, rows]: seed, top-k of codebook 0 and of the others; real float32 [5, rows]:
    repetition penalty, temperature and top-p of codebook 0, then of the others.
    All are read and written by the rows' numbers, so a captured graph serves any batch.
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
        """A row of whole numbers and one of others: what ``join`` takes of a sampling."""
        first, residual = sampling.codebook0, sampling.residual
        whole = [sampling.seed, first.top_k, residual.top_k]
        real = [sampling.repetition_penalty, first.temperature, first.top_p, residual.temperature, residual.top_p]
        return whole, real

    def join(self, slots: Tensor, drawn: Tensor, whole: Tensor, real: Tensor) -> None:
        """Utterances take slots [n] with ``drawn`` [n] frames behind them, and parameters whole, real [n, ...]."""
        self.whole.index_copy_(1, slots, whole.T)
        self.real.index_copy_(1, slots, real.float().T)
        self.drawn.index_copy_(0, slots, drawn)
        self.text.index_fill_(0, slots, self._text_pad)
        self.rules.forget(slots)

    def seeds(self, rows: Tensor) -> Tensor:
        """Their seeds, int64 [n]."""
        return self.whole[0, rows]

    def penalty(self, rows: Tensor) -> Tensor:
        """Their repetition penalties, float32 [n, 1]."""
        return self.real[0, rows][:, None]

    def draws(self, rows: Tensor) -> tuple[RowDraws, RowDraws]:
        """How they draw codebook 0, and how the others."""
        whole, real = self.whole.index_select(1, rows), self.real.index_select(1, rows)
        return RowDraws(real[1], whole[1], real[2]), RowDraws(real[3], whole[2], real[4])

    def write_text(self, places: Tensor, ids: Tensor) -> None:
        """Text ids [n] go to ``places`` [n], as ``places_of_text`` makes them."""
        self.text.view(-1).index_copy_(0, places, ids)

    def places_of_text(self, slot: int, first: int, count: int) -> NDArray[np.int64]:
        """Where the ids beside frames ``first`` to ``first + count`` go. The pad beside the last stays."""
        width = self.context + 1
        return slot * width + np.arange(min(first, self.context), min(first + count, self.context), dtype=np.int64)

    def text_beside_newest(self, rows: Tensor) -> Tensor:
        """The text ids [n] that stand beside the newest frames."""
        return self.text[rows, (self.drawn[rows] - 1).clamp_(0, self.context)]
