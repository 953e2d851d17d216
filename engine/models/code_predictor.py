"""The code predictor: a talker state and code 0 in, codes 1 to 15 out (SPEC 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.architecture import TalkerArchitecture
from engine.kernels.linear import Linear
from engine.models.frame_cache import FrameCache
from engine.models.qwen3 import Qwen3Stack, whole_utterances
from engine.models.weights import Weights

Draw = Callable[[int, Tensor], Tensor]
"""(codebook 1..15, float32 logits [rows, vocab]) -> codes [rows]."""


class CodePredictor:
    """Fifteen dependent steps a frame, on a cache of sixteen positions that starts empty with each frame.

    weights: the checkpoint's ``talker.code_predictor.``; code_tables: the talker's; rows: most frames predicted
    together. Embeddings are projected to the predictor's width once, at load.
    """

    def __init__(
        self, weights: Weights, architecture: TalkerArchitecture, *, code_tables: Sequence[Tensor], rows: int
    ) -> None:
        shape, books = architecture.predictor.transformer, architecture.codebooks
        self._project = _projection(weights)
        self._heads = [Linear(weights[f"lm_head.{book}.weight"]) for book in range(books - 1)]
        self._inputs = [self._project(table) for table in code_tables[:-1]]
        self._stack = Qwen3Stack(weights.under("model."), shape, books)
        self._cache = FrameCache(shape, rows, books, weights.device, weights.dtype)

    def logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """What the ``codes`` [rows, books] of frames that are known were drawn from, float32 [rows, books - 1, vocab].

        All positions are one pass: for reading, not for speaking.
        """
        rows = len(codes)
        known = [table[codes[:, book]] for book, table in enumerate(self._inputs)]
        x = torch.stack([self._project(hidden), *known], 1).flatten(0, 1)
        positions = torch.arange(len(known) + 1, device=hidden.device).repeat(rows)
        states = self._stack(x, positions, whole_utterances(rows)).unflatten(0, (rows, -1))
        return torch.stack([head(states[:, book]).float() for book, head in enumerate(self._heads, 1)], 1)

    def __call__(self, hidden: Tensor, first: Tensor, draw: Draw) -> Tensor:
        """Talker states [rows, talker hidden] and their codes of codebook 0 [rows] -> codes [rows, 16]."""
        rows = len(first)
        codes = [first]
        pair = torch.stack((self._project(hidden), self._inputs[0][first]), 1).flatten(0, 1)
        positions = torch.arange(2, device=hidden.device).repeat(rows)
        state = self._stack(pair, positions, self._cache.pair(rows))[1::2]
        codes.append(draw(1, self._heads[0](state).float()))
        for book in range(2, len(self._heads) + 1):
            x = self._inputs[book - 1][codes[-1]]
            state = self._stack(x, slice(book, book + 1), self._cache.single(rows, book))
            codes.append(draw(book, self._heads[book - 1](state).float()))
        return torch.stack(codes, 1)


def _projection(weights: Weights) -> Callable[[Tensor], Tensor]:
    """small_to_mtp_projection where the talker is wider than the predictor, else the identity."""
    if "small_to_mtp_projection.weight" not in weights:
        return lambda x: x
    return Linear(weights["small_to_mtp_projection.weight"], weights["small_to_mtp_projection.bias"])
