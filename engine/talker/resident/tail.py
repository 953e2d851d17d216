"""The end of a step: from the talker's hidden states to frames, and what is kept of them for the next step."""

from __future__ import annotations

from torch import Tensor

from engine.kernels.linear import Linear
from engine.talker.resident.first_codes import DrawFirst, PlainFirstCodes
from engine.talker.resident.residual import ResidualCodes
from engine.talker.resident.slots import Slots


class FrameTail:
    """Codebook 0, then the others, then the slots' next state; everything by the rows' slots, on the device alone."""

    def __init__(self, head: Linear, slots: Slots, residual: ResidualCodes, first: DrawFirst | None = None) -> None:
        self._head, self._slots, self._residual = head, slots, residual
        self._first = first or PlainFirstCodes(slots)

    def __call__(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Hidden states [n, hidden] of slots ``rows`` int64 [n] -> codes int64 [n, 16]."""
        first = self._first(self._head(hidden), rows)
        codes, embedding = self._residual(hidden, first.codes, first.draws, first.chance)
        self._slots.frame.index_copy_(0, rows, embedding)
        return codes
