"""Codebooks 1 to 15 of a frame: where a fused kernel takes the place of plain torch."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from engine.models.code_predictor import CodePredictor
from engine.models.talker_rows import CodecSide
from engine.request import CODEBOOKS
from engine.talker.counter_random import uniforms
from engine.talker.resident.row_draws import RowDraws, draw


class Chance(NamedTuple):
    """Whose turn of the dice it is: seeds int64 [rows], frame numbers int64 [rows]."""

    seeds: Tensor
    frames: Tensor

    def uniforms(self) -> Tensor:
        """float64 [rows, 16] in [0, 1): column b draws codebook b."""
        return uniforms(self.seeds, self.frames, CODEBOOKS)


class ResidualCodes(Protocol):
    """What draws the rest of a frame, captured in a graph: no shape and no branch may depend on a value."""

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: Chance) -> tuple[Tensor, Tensor]:
        """Talker states [rows, hidden] and codes of codebook 0, int64 [rows].

        Returns the frames' codes int64 [rows, 16] and the sum of their embeddings [rows, hidden].
        """


class PlainResidualCodes:
    """In plain torch; its results are what any other must give."""

    def __init__(self, predictor: CodePredictor, codec: CodecSide) -> None:
        self._predictor, self._codec = predictor, codec

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: Chance) -> tuple[Tensor, Tensor]:
        """See ``ResidualCodes``."""
        chances = chance.uniforms()
        codes = self._predictor(hidden, first, lambda book, logits: draw(logits, draws, chances[:, book]))
        return codes, self._codec.frame_rows(codes)
