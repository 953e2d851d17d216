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
    """Codes of codebook 0, int64 [rows], and the sampling parameters and RNG key of the other codebooks."""

    codes: Tensor
    draws: RowDraws
    chance: RngKey


class DrawFirst(Protocol):
    """Samples codebook 0. It is captured in a CUDA graph: no shape and no branch may depend on a tensor's value."""

    def __call__(self, logits: Tensor, rows: Tensor) -> FirstCodes:
        """Sample from logits [rows, vocab] of slots ``rows``, int64 [rows].

        Marks the codes as seen in their slots, and adds one to the slots' frame counters.
        """


class PlainFirstCodes:
    """Reference implementation of ``DrawFirst`` in plain torch; other implementations must give the same results."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def __call__(self, logits: Tensor, rows: Tensor) -> FirstCodes:
        """Sample codebook 0 and update the slots, as ``DrawFirst`` requires."""
        slots = self._slots
        chance = RngKey(slots.seeds(rows), slots.drawn[rows])
        first_draws, residual_draws = slots.draws(rows)
        allowed = slots.rules.apply(logits.float(), rows, slots.penalty(rows), chance.frames)
        codes = draw(allowed, first_draws, chance.uniforms()[:, 0])
        slots.rules.remember(rows, codes)
        slots.drawn.index_copy_(0, rows, chance.frames + 1)
        return FirstCodes(codes, residual_draws, chance)


class RngKey(NamedTuple):
    """Key of the counter-based random numbers: seeds int64 [rows], frame numbers int64 [rows]."""

    seeds: Tensor
    frames: Tensor

    def uniforms(self) -> Tensor:
        """Return random numbers, float64 [rows, 16] in [0, 1); column b is for codebook b."""
        return uniforms(self.seeds, self.frames, CODEBOOKS)


class ResidualCodes(Protocol):
    """Samples codebooks 1 to 15. Captured in a CUDA graph like ``DrawFirst``, with the same restrictions."""

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        """Sample from talker states [rows, hidden] and codes of codebook 0, int64 [rows].

        Returns the frames' codes int64 [rows, 16] and the sum of their embeddings [rows, hidden].
        """


class PlainResidualCodes:
    """Reference implementation of ``ResidualCodes`` in plain torch."""

    def __init__(self, predictor: CodePredictor, codec: CodecSide) -> None:
        self._predictor, self._codec = predictor, codec

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        """Sample codebooks 1 to 15 as ``ResidualCodes`` requires."""
        chances = chance.uniforms()
        codes = self._predictor(hidden, first, lambda book, logits: draw(logits, draws, chances[:, book]))
        return codes, self._codec.frame_rows(codes)


class FrameSampler:
    """Samples codebook 0, then the other codebooks, and updates the slots. Runs on the device without host access."""

    def __init__(self, head: Linear, slots: Slots, residual: ResidualCodes, first: DrawFirst | None = None) -> None:
        self._head, self._slots, self._residual = head, slots, residual
        self._first = first or PlainFirstCodes(slots)

    def __call__(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Sample codes int64 [n, 16] from hidden states [n, hidden] of slots ``rows``, int64 [n]."""
        first = self._first(self._head(hidden), rows)
        codes, embedding = self._residual(hidden, first.codes, first.draws, first.chance)
        self._slots.frame.index_copy_(0, rows, embedding)
        return codes
