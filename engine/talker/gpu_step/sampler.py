"""Samples a frame's sixteen codes on the device, from the talker's hidden states."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from engine.kernels.linear import Linear
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.protocol.request import CODEBOOKS
from engine.talker.gpu_step.slots import RowDraws, Slots, draw
from engine.talker.sampling import uniforms


class FirstCodes(NamedTuple):
    """Codes of codebook 0, int64 [rows], and how those of the others are to be drawn."""

    codes: Tensor
    draws: RowDraws
    chance: RngKey


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
        chance = RngKey(slots.seeds(rows), slots.drawn[rows])
        first_draws, residual_draws = slots.draws(rows)
        allowed = slots.rules.apply(logits.float(), rows, slots.penalty(rows), chance.frames)
        codes = draw(allowed, first_draws, chance.uniforms()[:, 0])
        slots.rules.remember(rows, codes)
        slots.drawn.index_copy_(0, rows, chance.frames + 1)
        return FirstCodes(codes, residual_draws, chance)


class RngKey(NamedTuple):
    """Whose turn of the dice it is: seeds int64 [rows], frame numbers int64 [rows]."""

    seeds: Tensor
    frames: Tensor

    def uniforms(self) -> Tensor:
        """float64 [rows, 16] in [0, 1): column b draws codebook b."""
        return uniforms(self.seeds, self.frames, CODEBOOKS)


class ResidualCodes(Protocol):
    """What draws the rest of a frame, captured in a graph: no shape and no branch may depend on a value."""

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        """Talker states [rows, hidden] and codes of codebook 0, int64 [rows].

        Returns the frames' codes int64 [rows, 16] and the sum of their embeddings [rows, hidden].
        """


class PlainResidualCodes:
    """In plain torch; its results are what any other must give."""

    def __init__(self, predictor: CodePredictor, codec: CodecSide) -> None:
        self._predictor, self._codec = predictor, codec

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        """See ``ResidualCodes``."""
        chances = chance.uniforms()
        codes = self._predictor(hidden, first, lambda book, logits: draw(logits, draws, chances[:, book]))
        return codes, self._codec.frame_rows(codes)


class FrameSampler:
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
