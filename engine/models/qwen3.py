"""The Qwen3 decoder layers that the talker and the code predictor are made of (SPEC 2 and 5)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import Transformer
from engine.kernels.linear import Linear
from engine.models.layers import RMSNorm, Rotary
from engine.models.weights import Weights

Attention = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query [rows, heads, d], key [rows, kv_heads, d], value) -> [rows, heads * d].

Whoever runs the layers supplies it, and with it decides where keys and values are kept."""


def whole_utterances(count: int) -> Attention:
    """Attention of ``count`` utterances of one length, read at once from their beginning; none sees another."""

    def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (each.unflatten(0, (count, -1)).transpose(1, 2) for each in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(0, 1).flatten(1)

    return attention


class Qwen3Layer:
    """One pre-norm layer: grouped-query attention with normalised queries and keys, then SwiGLU."""

    def __init__(self, weights: Weights, shape: Transformer) -> None:
        self._head_dim = shape.head_dim
        self._turning_and_still = (shape.heads + shape.kv_heads, shape.kv_heads)
        self._queries_and_keys = (shape.heads, shape.kv_heads)
        self._input_norm = RMSNorm(weights["input_layernorm.weight"], shape.eps)
        self._post_norm = RMSNorm(weights["post_attention_layernorm.weight"], shape.eps)
        query_norms = weights["self_attn.q_norm.weight"].expand(shape.heads, -1)
        key_norms = weights["self_attn.k_norm.weight"].expand(shape.kv_heads, -1)
        self._qk_norm = RMSNorm(torch.cat((query_norms, key_norms)), shape.eps)
        self._qkv = Linear(torch.cat([weights[f"self_attn.{part}_proj.weight"] for part in "qkv"]))
        self._out = Linear(weights["self_attn.o_proj.weight"])
        self._gate_up = Linear(torch.cat([weights["mlp.gate_proj.weight"], weights["mlp.up_proj.weight"]]))
        self._down = Linear(weights["mlp.down_proj.weight"])

    def __call__(self, index: int, x: Tensor, rotary: Rotary, cos: Tensor, sin: Tensor, attention: Attention) -> Tensor:
        """x [rows, hidden] through layer ``index``."""
        qkv = self._qkv(self._input_norm(x)).view(x.shape[0], -1, self._head_dim)
        turning, value = torch.split_with_sizes(qkv, self._turning_and_still, 1)
        turned = rotary.rotate(self._qk_norm(turning), cos, sin)
        query, key = torch.split_with_sizes(turned, self._queries_and_keys, 1)
        x = self._out(attention(index, query, key, value)).add_(x)
        gate, up = self._gate_up(self._post_norm(x)).chunk(2, -1)
        return self._down(F.silu(gate).mul_(up)).add_(x)


class Qwen3Stack:
    """All layers and the final norm; the caller supplies positions and attention."""

    def __init__(self, weights: Weights, shape: Transformer, positions: int) -> None:
        self.shape = shape
        self._layers = [Qwen3Layer(weights.under(f"layers.{index}."), shape) for index in range(shape.layers)]
        self._norm = RMSNorm(weights["norm.weight"], shape.eps)
        self._rotary = Rotary(shape.head_dim, shape.rope_theta, positions, weights.device, weights.dtype)

    def __call__(self, x: Tensor, positions: Tensor | slice, attention: Attention) -> Tensor:
        """x [rows, hidden] at ``positions`` [rows] -> hidden states after the final norm [rows, hidden]."""
        cos, sin = self._rotary.at(positions)
        for index, layer in enumerate(self._layers):
            x = layer(index, x, self._rotary, cos, sin, attention)
        return self._norm(x)
