"""Keys and values of the code predictor's sixteen positions, for the frames that are predicted together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.architecture import Transformer
from engine.models.layers import attend, causal_mask
from engine.models.qwen3 import Attention


class _Place(NamedTuple):
    """Of one layer and position: where its key and value go [rows, kv_heads, d], and all up to there.

    keys, values: [rows * kv_heads, positions, d].
    """

    key: Tensor
    value: Tensor
    keys: Tensor
    values: Tensor


class FrameCache:
    """[layers, rows, kv_heads, positions, head_dim], overwritten with every frame.

    A frame takes 75 attentions of a few microseconds each; cutting the cache anew for each would take as long. So the
    views are made once for each number of rows.
    """

    def __init__(self, shape: Transformer, rows: int, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        size = (shape.layers, rows, shape.kv_heads, positions, shape.head_dim)
        self._keys = torch.zeros(size, device=device, dtype=dtype)
        self._values = torch.zeros(size, device=device, dtype=dtype)
        self._kv_heads, self._groups = shape.kv_heads, shape.heads // shape.kv_heads
        self._pair_mask = causal_mask(2, 0, device, dtype).repeat(self._groups, 1)
        self._places: dict[int, list[list[_Place]]] = {}

    def pair(self, rows: int) -> Attention:
        """Attention of positions 0 and 1 of every row, given as [rows * 2, ...]."""

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
        """Attention of one new position of every row."""
        places = self._places_of(rows)[position]

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            place = places[layer]
            place.key.copy_(key)
            place.value.copy_(value)
            grouped = query.reshape(-1, self._groups, query.shape[-1])
            return attend(grouped, place.keys, place.values).view(rows, -1)

        return attention

    def _places_of(self, rows: int) -> list[list[_Place]]:
        if rows not in self._places:
            keys, values = self._keys[:, :rows], self._values[:, :rows]
            self._places[rows] = [
                [_place(key, value, at) for key, value in zip(keys, values, strict=True)]
                for at in range(self._keys.shape[3])
            ]
        return self._places[rows]


def _place(keys: Tensor, values: Tensor, at: int) -> _Place:
    stop = at + 1
    return _Place(keys[:, :, at], values[:, :, at], keys.flatten(0, 1)[:, :stop], values.flatten(0, 1)[:, :stop])
