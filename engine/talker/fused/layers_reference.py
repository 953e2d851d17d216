"""Reference implementation of the kernels of the talker's layers, in plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.talker.fused.layers import PAGE, LayerWeights, PagedCache
from engine.talker.fused.reference import product, rms_norm, rotated


class ReferenceLayers:
    """Computes what ``TalkerLayers`` and ``RowLayers`` compute, with the same arguments.

    Inputs of matrix products and cached keys and values are rounded to the matrices' dtype; everything else is float32.
    """

    def __init__(self, weights: LayerWeights, cache: PagedCache) -> None:
        self._weights, self._cache = weights, cache

    def __call__(self, x: Tensor, positions: Tensor, slots: Tensor, pages: Tensor) -> Tensor:
        """Return the hidden states after the final norm [rows, hidden]."""
        weights, eps = self._weights, self._weights.shape.eps
        dtype, x = x.dtype, x.float()
        for layer, (qkv, out, gate_up, down) in enumerate(weights.matrices):
            heads = product(rms_norm(x, weights.input_norm[layer], eps), qkv)
            x = x + product(self._attention(heads, layer, positions, slots, pages), out)
            gate, up = product(rms_norm(x, weights.post_norm[layer], eps), gate_up).chunk(2, -1)
            x = x + product(F.silu(gate) * up, down)
        return rms_norm(x, weights.norm, eps).to(dtype)

    def _attention(self, qkv: Tensor, layer: int, positions: Tensor, slots: Tensor, pages: Tensor) -> Tensor:
        """Store this step's keys and values, and attend to all positions up to it: [rows, heads * d]."""
        weights, shape, rows = self._weights, self._weights.shape, len(qkv)
        parts = (shape.heads, shape.kv_heads, shape.kv_heads)
        query, key, value = qkv.view(rows, -1, shape.head_dim).split(parts, 1)
        cos, sin = weights.cos[positions][:, None], weights.sin[positions][:, None]
        query = rotated(rms_norm(query, weights.q_norm[layer], shape.eps), cos, sin)
        keys, values = self._cache[layer]
        key = rotated(rms_norm(key, weights.k_norm[layer], shape.eps), cos, sin).to(keys.dtype)
        value, attended = value.to(values.dtype), []
        for row in range(rows):
            before = int(positions[row])
            row_pages = pages[row, : before // PAGE + 1].long()
            k, v = (
                torch.cat((cached[row_pages].flatten(0, 1)[:before], new[row][None])).float()
                for cached, new in ((keys, key), (values, value))
            )
            grouped = query[row].view(shape.kv_heads, -1, shape.head_dim)
            weight = torch.softmax(grouped @ k.permute(1, 2, 0) * shape.head_dim**-0.5, -1)
            attended.append((weight @ v.transpose(0, 1)).flatten())
            if slots[row] >= 0:
                keys[slots[row] // PAGE, slots[row] % PAGE] = key[row]
                values[slots[row] // PAGE, slots[row] % PAGE] = value[row]
        return torch.stack(attended)
