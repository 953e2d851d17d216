"""The code predictor: maps a talker state and code 0 to codes 1 to 15 (SPEC 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture, Transformer
from engine.kernels.linear import Linear
from engine.models.qwen3 import Attention, Qwen3Stack, attend, causal_mask
from engine.models.weights import Weights


class _CacheView(NamedTuple):
    """Views of the cache for one layer and position.

    key, value: [rows, kv_heads, d], where the new key and value are written. keys, values:
    [rows * kv_heads, positions, d], all positions up to and including this one.
    """

    key: Tensor
    value: Tensor
    keys: Tensor
    values: Tensor


class FrameCache:
    """Key-value cache [layers, rows, kv_heads, positions, head_dim], overwritten by every frame.

    A frame computes 75 attentions of a few microseconds each. Slicing the cache for each would take as long as the
    attention itself. So the views are created once per number of rows.
    """

    def __init__(self, shape: Transformer, rows: int, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        size = (shape.layers, rows, shape.kv_heads, positions, shape.head_dim)
        self._keys = torch.zeros(size, device=device, dtype=dtype)
        self._values = torch.zeros(size, device=device, dtype=dtype)
        self._kv_heads, self._groups = shape.kv_heads, shape.heads // shape.kv_heads
        self._pair_mask = causal_mask(2, 0, device, dtype).repeat(self._groups, 1)
        self._views: dict[int, list[list[_CacheView]]] = {}

    def pair(self, rows: int) -> Attention:
        """Return the attention of positions 0 and 1 of every row, in one pass over [rows * 2, ...]."""

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            keys, values = self._keys[layer, :rows, :, :2], self._values[layer, :rows, :, :2]
            keys.copy_(key.unflatten(0, (rows, 2)).transpose(1, 2))
            values.copy_(value.unflatten(0, (rows, 2)).transpose(1, 2))
            grouped = query.reshape(rows, 2, self._kv_heads, self._groups, -1).permute(0, 2, 3, 1, 4)
            stacked = grouped.reshape(rows * self._kv_heads, self._groups * 2, -1)
            mixed = attend(stacked, keys.flatten(0, 1), values.flatten(0, 1), self._pair_mask)
            return mixed.view(rows, self._kv_heads, self._groups, 2, -1).permute(0, 3, 1, 2, 4).reshape(rows * 2, -1)

        return attention

    def single(self, rows: int, position: int) -> Attention:
        """Return the attention of one new position of every row."""
        views = self._views_of(rows)[position]

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            view = views[layer]
            view.key.copy_(key)
            view.value.copy_(value)
            grouped = query.reshape(-1, self._groups, query.shape[-1])
            return attend(grouped, view.keys, view.values).view(rows, -1)

        return attention

    def _views_of(self, rows: int) -> list[list[_CacheView]]:
        if rows not in self._views:
            keys, values = self._keys[:, :rows], self._values[:, :rows]
            self._views[rows] = [
                [_cache_view(key, value, position) for key, value in zip(keys, values, strict=True)]
                for position in range(self._keys.shape[3])
            ]
        return self._views[rows]


def _cache_view(keys: Tensor, values: Tensor, position: int) -> _CacheView:
    upto_keys, upto_values = (each.flatten(0, 1)[:, : position + 1] for each in (keys, values))
    return _CacheView(keys[:, :, position], values[:, :, position], upto_keys, upto_values)


class FrameLayers(Protocol):
    """The decoder layers and heads of the code predictor, with a cache that every frame overwrites."""

    def pair(self, x: Tensor) -> Tensor:
        """Run positions 0 and 1 of each row, [rows * 2, hidden] -> logits of codebook 1, float32 [rows, vocab]."""

    def single(self, x: Tensor, position: int) -> Tensor:
        """Run a position from 2 on of each row, [rows, hidden] -> logits of that codebook, float32 [rows, vocab]."""


class PlainFrameLayers:
    """``FrameLayers`` in plain torch.

    weights: the checkpoint's ``talker.code_predictor.``. rows: maximum frames per call.
    """

    def __init__(self, weights: Weights, shape: Transformer, rows: int, codebooks: int) -> None:
        self.heads = [Linear(weights[name]) for name in head_names(codebooks)]
        self.stack = Qwen3Stack(weights.under("model."), shape, codebooks)
        self._cache = FrameCache(shape, rows, codebooks, weights.device, weights.dtype)

    def pair(self, x: Tensor) -> Tensor:
        """Run positions 0 and 1 of each row."""
        rows = len(x) // 2
        states = self.stack(x, torch.arange(2, device=x.device).repeat(rows), self._cache.pair(rows))
        return self.heads[0](states[1::2]).float()

    def single(self, x: Tensor, position: int) -> Tensor:
        """Run one further position of each row."""
        states = self.stack(x, slice(position, position + 1), self._cache.single(len(x), position))
        return self.heads[position - 1](states).float()


def head_names(codebooks: int) -> list[str]:
    """Return the names of the heads of codebooks 1 and up."""
    return [f"lm_head.{book}.weight" for book in range(codebooks - 1)]


SampleCodes = Callable[[int, Tensor], Tensor]
"""Samples the codes of one codebook: (codebook 1..15, float32 logits [rows, vocab]) -> codes [rows]."""


class CodePredictor:
    """Predicts codes 1 to 15 of a frame in fifteen sequential steps.

    The cache has sixteen positions and starts empty for each frame. The embeddings are projected to the predictor's
    width once, at load.

    weights: the checkpoint's ``talker.code_predictor.``. code_tables: the talker's. rows: maximum frames per call.
    layers: the decoder layers and heads, plain ones by default.
    """

    def __init__(
        self,
        weights: Weights,
        architecture: TalkerArchitecture,
        *,
        code_tables: Sequence[Tensor],
        rows: int,
        layers: FrameLayers | None = None,
    ) -> None:
        shape, books = architecture.predictor.transformer, architecture.codebooks
        self._project = _projection(weights)
        self._inputs = [self._project(table) for table in code_tables[:-1]]
        self._layers = layers or PlainFrameLayers(weights, shape, rows, books)

    def __call__(self, hidden: Tensor, first: Tensor, sample: SampleCodes) -> Tensor:
        """Map talker states [rows, talker hidden] and their codes of codebook 0 [rows] to codes [rows, 16]."""
        codes = [first]
        pair = torch.stack((self._project(hidden), self._inputs[0][first]), 1).flatten(0, 1)
        codes.append(sample(1, self._layers.pair(pair)))
        for book in range(2, len(self._inputs) + 1):
            x = self._inputs[book - 1][codes[-1]]
            codes.append(sample(book, self._layers.single(x, book)))
        return torch.stack(codes, 1)


def _projection(weights: Weights) -> Callable[[Tensor], Tensor]:
    """Return small_to_mtp_projection when the talker is wider than the predictor, else the identity."""
    if "small_to_mtp_projection.weight" not in weights:
        return lambda x: x
    return Linear(weights["small_to_mtp_projection.weight"], weights["small_to_mtp_projection.bias"])
