"""The end of a step: from the talker's hidden states to frames, and what is kept of them for the next step."""

from __future__ import annotations

from torch import Tensor

from engine.kernels.linear import Linear
from engine.talker.resident.residual import Chance, ResidualCodes
from engine.talker.resident.row_draws import draw
from engine.talker.resident.slots import Slots


class FrameTail:
    """Codebook 0, then the others, then the slots' next state; everything by the rows' slots, on the device alone."""

    def __init__(self, head: Linear, slots: Slots, residual: ResidualCodes) -> None:
        self._head, self._slots, self._residual = head, slots, residual

    def __call__(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Hidden states [n, hidden] of slots ``rows`` int64 [n] -> codes int64 [n, 16]."""
        slots = self._slots
        chance = Chance(slots.seeds(rows), slots.drawn[rows])
        first_draws, residual_draws = slots.draws(rows)
        logits = slots.rules.apply(self._head(hidden).float(), rows, slots.penalty(rows), chance.frames)
        first = draw(logits, first_draws, chance.uniforms()[:, 0])
        codes, embedding = self._residual(hidden, first, residual_draws, chance)
        slots.rules.remember(rows, first)
        slots.frame.index_copy_(0, rows, embedding)
        slots.drawn.index_copy_(0, rows, chance.frames + 1)
        return codes
