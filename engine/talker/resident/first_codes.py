"""Codebook 0 of a frame: where a fused kernel takes the place of plain torch."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from engine.talker.resident.residual import Chance
from engine.talker.resident.row_draws import RowDraws, draw
from engine.talker.resident.slots import Slots


class FirstCodes(NamedTuple):
    """Codes of codebook 0, int64 [rows], and how those of the others are to be drawn."""

    codes: Tensor
    draws: RowDraws
    chance: Chance


class DrawFirst(Protocol):
    """What draws codebook 0, captured in a graph: no shape and no branch may depend on a value."""

    def __call__(self, logits: Tensor, rows: Tensor) -> FirstCodes:
        """Logits [rows, vocab] of slots ``rows`` int64 [rows]. The slots remember the codes, and one more frame."""


class PlainFirstCodes:
    """In plain torch; its results are what any other must give."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def __call__(self, logits: Tensor, rows: Tensor) -> FirstCodes:
        """See ``DrawFirst``."""
        slots = self._slots
        chance = Chance(slots.seeds(rows), slots.drawn[rows])
        first_draws, residual_draws = slots.draws(rows)
        allowed = slots.rules.apply(logits.float(), rows, slots.penalty(rows), chance.frames)
        codes = draw(allowed, first_draws, chance.uniforms()[:, 0])
        slots.rules.remember(rows, codes)
        slots.drawn.index_copy_(0, rows, chance.frames + 1)
        return FirstCodes(codes, residual_draws, chance)
