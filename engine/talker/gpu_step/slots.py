"""Per-utterance tensors on the device, one row per slot."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.talker.sampling import Codebook0Rules
from engine.talker.sampling_params import CodebookParams, SamplingTensors


class Slots:
    """Per-slot tensors: one row per slot, and a last row, ``padding_row``, for the padding rows of a batch.

    text: int64 [rows, context + 1]; row i holds the text id for each frame of slot i; unused columns are text_pad.
    embedding: [rows, hidden], of the newest frame. frames_made, seeds: int64 [rows]. codebook0_rules: which codes of
    codebook 0 are allowed. codebook0_params, residual_params: sampling parameters of codebook 0, and of codebooks 1
    to 15. All tensors are read and written by row index, so a captured graph works for any batch.
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
        self.padding_row = count
        self.context = context
        self._text_pad = text_pad
        self.codebook0_rules = Codebook0Rules(architecture.vocab, architecture.ids.eos, rows, device)
        self.text = torch.full((rows, context + 1), text_pad, device=device)
        self.embedding = torch.zeros(rows, hidden, device=device, dtype=dtype)
        self.frames_made = torch.zeros(rows, dtype=torch.int64, device=device)
        self.seeds = torch.zeros(rows, dtype=torch.int64, device=device)
        self.codebook0_params = SamplingTensors.of([CodebookParams()] * rows, device)
        self.residual_params = SamplingTensors.of([CodebookParams()] * rows, device)

    def reset(
        self,
        slot_ids: Tensor,
        seeds: Tensor,
        codebook0_params: SamplingTensors,
        residual_params: SamplingTensors,
    ) -> None:
        """Reset slots ``slot_ids`` [n] for other utterances; every argument has n rows."""
        self.seeds.index_copy_(0, slot_ids, seeds)
        self.codebook0_params.assign(slot_ids, codebook0_params)
        self.residual_params.assign(slot_ids, residual_params)
        self.frames_made.index_fill_(0, slot_ids, 0)
        self.text.index_fill_(0, slot_ids, self._text_pad)
        self.codebook0_rules.forget(slot_ids)

    def write_text(self, indices: Tensor, ids: Tensor) -> None:
        """Write text ids [n] to ``indices`` [n], flat indices from ``text_indices``."""
        self.text.view(-1).index_copy_(0, indices, ids)

    def text_indices(self, slot: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the flat indices in ``text`` for the ids of frames ``first`` to ``first + count``.

        The last column of a row is never written and stays text_pad.
        """
        width = self.context + 1
        return slot * width + np.arange(min(first, self.context), min(first + count, self.context), dtype=np.int64)

    def newest_text(self, slot_ids: Tensor) -> Tensor:
        """Return the text ids [n] paired with the newest frames of slots ``slot_ids`` [n]."""
        return self.text[slot_ids, (self.frames_made[slot_ids] - 1).clamp_(0, self.context)]
