"""The code predictor: a talker state and code 0 in, codes 1 to 15 out (SPEC 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from engine.architecture import TalkerArchitecture
from engine.kernels.linear import Linear
from engine.models.layers import attend, causal_mask
from engine.models.qwen3 import Qwen3Stack

Draw = Callable[[int, Tensor], Tensor]
"""(codebook 1..15, float32 logits [rows, vocab]) -> codes [rows]."""


class CodePredictor:
    """Fifteen dependent steps a frame, on a cache of sixteen positions that starts empty with each frame.

    tensors: the checkpoint's, without their ``talker.`` prefix. rows: most frames predicted together.
    Embeddings are projected to the predictor's width once, at load.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        architecture: TalkerArchitecture,
        *,
        rows: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = architecture.predictor.transformer
        own = {
            name.removeprefix("code_predictor."): tensor.to(device, dtype)
            for name, tensor in tensors.items()
            if name.startswith("code_predictor.")
        }
        books = architecture.codebooks
        self._project = _projection(own)
        self._heads = [Linear(own[f"lm_head.{book}.weight"]) for book in range(books - 1)]
        self._inputs = [self._project(tensors["model.codec_embedding.weight"].to(device, dtype))] + [
            self._project(own[f"model.codec_embedding.{book}.weight"]) for book in range(books - 2)
        ]
        layers = {
            name.removeprefix("model."): tensor
            for name, tensor in own.items()
            if name.startswith("model.layers.") or name == "model.norm.weight"
        }
        self._stack = Qwen3Stack(layers, shape, books, device)
        cache = (shape.layers, rows, shape.kv_heads, books, shape.head_dim)
        self._keys = torch.zeros(cache, device=device, dtype=dtype)
        self._values = torch.zeros(cache, device=device, dtype=dtype)
        self._groups = shape.heads // shape.kv_heads
        self._pair_mask = causal_mask(2, 0, device, dtype).repeat(self._groups, 1)

    def __call__(self, hidden: Tensor, first: Tensor, draw: Draw) -> Tensor:
        """Talker states [rows, talker hidden] and their codes of codebook 0 [rows] -> codes [rows, 16]."""
        rows = len(first)
        codes = [first]
        pair = torch.stack((self._project(hidden), self._inputs[0][first]), 1).flatten(0, 1)
        state = self._advance(pair, rows, 0, 2)[1::2]
        codes.append(draw(1, self._heads[0](state).float()))
        for book in range(2, len(self._heads) + 1):
            x = self._inputs[book - 1][codes[-1]]
            state = self._advance(x, rows, book, 1)
            codes.append(draw(book, self._heads[book - 1](state).float()))
        return torch.stack(codes, 1)

    def _advance(self, x: Tensor, rows: int, start: int, width: int) -> Tensor:
        """x [rows * width, hidden], ``width`` new positions of every row from ``start`` on."""
        stop = start + width
        mask = self._pair_mask if width > 1 else None

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            keys, values = self._keys[layer, :rows, :, :stop], self._values[layer, :rows, :, :stop]
            keys[:, :, start:] = key.unflatten(0, (rows, width)).transpose(1, 2)
            values[:, :, start:] = value.unflatten(0, (rows, width)).transpose(1, 2)
            kv_heads, head_dim = key.shape[1:]
            grouped = query.reshape(rows, width, kv_heads, self._groups, head_dim).permute(0, 2, 3, 1, 4)
            mixed = attend(grouped.flatten(2, 3), keys, values, mask)
            return mixed.unflatten(2, (self._groups, width)).permute(0, 3, 1, 2, 4).reshape(rows * width, -1)

        positions = slice(start, stop) if rows == 1 or width == 1 else self._pair_positions(rows)
        return self._stack(x, positions, attention)

    def _pair_positions(self, rows: int) -> Tensor:
        return torch.arange(2, device=self._keys.device).repeat(rows)


def _projection(own: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """small_to_mtp_projection where the talker is wider than the predictor, else the identity."""
    weight = own.get("small_to_mtp_projection.weight")
    if weight is None:
        return lambda x: x
    return Linear(weight, own["small_to_mtp_projection.bias"])
