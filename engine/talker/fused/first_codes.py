"""Codebook 0 in one launch."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from engine.kernels.fallback import require_gpu
from engine.talker.fused.launches.first_codes import draw_first_rows
from engine.talker.resident.first_codes import FirstCodes
from engine.talker.resident.residual import Chance
from engine.talker.resident.row_draws import RowDraws
from engine.talker.resident.slots import Slots
from engine.talker.sampling import Codebook0Rules


class FusedFirstCodes:
    """As ``PlainFirstCodes``, which defines the results, in one launch instead of some eighty."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def try_out(self) -> None:
        """One row of zeros, nobody's. Raises whatever Triton does where the launch cannot be compiled or run."""
        slots, seen = self._slots, self._slots.rules.seen
        logits = torch.zeros(1, seen.shape[1], device=seen.device, dtype=slots.frame.dtype)
        self(logits, torch.tensor([slots.scratch], device=seen.device))
        require_gpu()

    def __call__(self, logits: Tensor, rows: Tensor) -> FirstCodes:
        """See ``DrawFirst``."""
        slots, rules, count = self._slots, self._slots.rules, len(rows)
        vocab = logits.shape[1]
        codes = torch.empty_like(rows)
        whole = torch.empty(3, count, device=rows.device, dtype=torch.int64)
        real = torch.empty(2, count, dtype=torch.float32, device=rows.device)
        draw_first_rows[(count,)](
            logits, rows, slots.whole, slots.real, slots.drawn, rules.seen.view(torch.uint8), codes, whole, real,
            SLOTS=slots.scratch + 1, VOCAB=vocab, BLOCK=triton.next_power_of_2(vocab),
            SPECIAL=Codebook0Rules.SPECIAL_IDS, EOS=rules.eos, MIN_TOKENS=Codebook0Rules.MIN_TOKENS, num_warps=8,
        )  # fmt: skip
        return FirstCodes(codes, RowDraws(real[0], whole[2], real[1]), Chance(whole[0], whole[1]))
