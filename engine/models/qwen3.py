"""Qwen3 decoder layers of the talker and the code predictor, and parts that other networks share (SPEC 2, 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.kernels.linear import Linear
from engine.models.weights import Weights

_ZERO = torch.zeros(())


class RMSNorm:
    """RMSNorm over the last axis: normalizes in float32, casts to x's dtype, then scales (SPEC 2).

    weight: [width], or [..., width] for a separate weight per row of x [..., width].
    In float32, x / sqrt(mean(x^2) + eps) is computed as sqrt(width) x / hypot(|x|, sqrt(width eps)). This takes four
    small kernels, and torch's implementation takes seven. For a few rows it halves the time.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._width, self._eps = weight.shape[-1], eps
        self._float32 = weight.dtype == torch.float32
        self._gain = weight * sqrt(self._width) if self._float32 else weight
        self._floor = torch.tensor(sqrt(self._width * eps), device=weight.device)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize x, which has the weight's dtype."""
        if self._float32:
            return (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self._floor)).mul_(self._gain)
        return F.rms_norm(x.float(), (self._width,), None, self._eps).to(x.dtype) * self._gain


class Rotary:
    """Rotary position embedding, half rotation (RoFormer; SPEC 2).

    The first half of the stored sine is negated, so that a rotation is one roll and two products.
    """

    def __init__(self, head_dim: int, theta: float, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        self.half = head_dim // 2
        exponents = torch.arange(0, head_dim, 2, device=device, dtype=torch.int64).float() / head_dim
        angles = torch.outer(torch.arange(positions, device=device).float(), 1.0 / theta**exponents)
        self.cos = torch.cat((angles.cos(), angles.cos()), -1).to(dtype)
        self.sin = torch.cat((-angles.sin(), angles.sin()), -1).to(dtype)

    def at(self, positions: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return cos and sin [n, 1, head_dim] of n positions; they broadcast to [n, heads, head_dim]."""
        return self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate x [..., head_dim] to the positions of cos and sin."""
        return torch.addcmul(x * cos, x.roll(self.half, -1), sin)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax attention of query [n, q, d], key and value [n, k, d]; mask [q, k] is added to the scores.

    On a CPU it uses explicit products, because the result of the fused kernel depends on the number of sequences in
    the call. The first product includes scale and mask.
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    bias, weight = (_ZERO.to(query.dtype), 0) if mask is None else (mask, 1)
    scores = torch.baddbmm(bias, query, key.transpose(1, 2), beta=weight, alpha=query.shape[-1] ** -0.5)
    return torch.bmm(torch.softmax(scores, -1), value)


def causal_mask(queries: int, past: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a mask [queries, past + queries]: 0 for positions a query attends to, -inf for later positions."""
    mask = torch.full((queries, past + queries), float("-inf"), device=device, dtype=dtype)
    return mask.triu_(past + 1)


Attention = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query [rows, heads, d], key [rows, kv_heads, d], value) -> [rows, heads * d].

The caller of the layers supplies this function, and so decides where keys and values are stored."""

Product = Callable[[Tensor], Tensor]
"""[rows, in] -> [rows, out]."""


def _linear(weights: Weights, names: Sequence[str]) -> Linear:
    """Return the product with the rows of several matrices. names: without ``.weight``."""
    matrices = [weights[f"{name}.weight"] for name in names]
    return Linear(torch.cat(matrices) if len(matrices) > 1 else matrices[0])


class Qwen3Layer:
    """One pre-norm layer: grouped-query attention with normalized queries and keys, then SwiGLU.

    qkv, out, gate_up, down: its products.
    """

    def __init__(self, weights: Weights, shape: Transformer) -> None:
        self._head_dim = shape.head_dim
        self._qk_and_value_heads = (shape.heads + shape.kv_heads, shape.kv_heads)
        self._query_and_key_heads = (shape.heads, shape.kv_heads)
        self._input_norm = RMSNorm(weights["input_layernorm.weight"], shape.eps)
        self._post_norm = RMSNorm(weights["post_attention_layernorm.weight"], shape.eps)
        query_norms = weights["self_attn.q_norm.weight"].expand(shape.heads, -1)
        key_norms = weights["self_attn.k_norm.weight"].expand(shape.kv_heads, -1)
        self._qk_norm = RMSNorm(torch.cat((query_norms, key_norms)), shape.eps)
        self.qkv: Product = _linear(weights, [f"self_attn.{part}_proj" for part in "qkv"])
        self.out: Product = _linear(weights, ["self_attn.o_proj"])
        self.gate_up: Product = _linear(weights, ["mlp.gate_proj", "mlp.up_proj"])
        self.down: Product = _linear(weights, ["mlp.down_proj"])

    def __call__(self, index: int, x: Tensor, rotary: Rotary, cos: Tensor, sin: Tensor, attention: Attention) -> Tensor:
        """Run x [rows, hidden] through the layer. index: the layer's number, passed to ``attention``."""
        qkv = self.qkv(self._input_norm(x)).view(x.shape[0], -1, self._head_dim)
        qk, value = torch.split_with_sizes(qkv, self._qk_and_value_heads, 1)
        rotated = rotary.rotate(self._qk_norm(qk), cos, sin)
        query, key = torch.split_with_sizes(rotated, self._query_and_key_heads, 1)
        x = self.out(attention(index, query, key, value)).add_(x)
        gate, up = self.gate_up(self._post_norm(x)).chunk(2, -1)
        return self.down(F.silu(gate).mul_(up)).add_(x)


class Qwen3Stack:
    """All layers and the final norm; the caller supplies positions and attention."""

    def __init__(self, weights: Weights, shape: Transformer, positions: int) -> None:
        self.shape = shape
        in_file_order = sorted(range(shape.layers), key=str)  # safetensors files are sorted by name
        layers = {index: Qwen3Layer(weights.under(f"layers.{index}."), shape) for index in in_file_order}
        self.layers = [layers[index] for index in range(shape.layers)]
        self._norm = RMSNorm(weights["norm.weight"], shape.eps)
        self._rotary = Rotary(shape.head_dim, shape.rope_theta, positions, weights.device, weights.dtype)

    def __call__(self, x: Tensor, positions: Tensor | slice, attention: Attention) -> Tensor:
        """Map x [rows, hidden] at ``positions`` [rows] to hidden states after the final norm, [rows, hidden]."""
        cos, sin = self._rotary.at(positions)
        for index, layer in enumerate(self.layers):
            x = layer(index, x, self._rotary, cos, sin, attention)
        return self._norm(x)
