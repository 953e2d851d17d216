"""Qwen3 decoder layers for training (SPEC 2): float32 parameters with published names, computed in the dtype of x."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import Transformer

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(query [rows, heads, n, d], key [rows, kv_heads, n, d], value) -> [rows, heads, n, d]."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the product of x [..., in] and a float32 weight [out, in], computed in the dtype of x."""
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


class RMSNorm(nn.Module):
    """RMSNorm over the last axis (SPEC 2)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x [..., width]."""
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self._eps)


class Attention(nn.Module):
    """Grouped-query attention with normalized queries and keys and rotary positions."""

    def __init__(self, shape: Transformer, depth: int) -> None:
        super().__init__()
        self._heads, self._kv_heads, self._head_dim = shape.heads, shape.kv_heads, shape.head_dim
        attended = shape.heads * shape.head_dim
        self.q_proj = _matrix(attended, shape.hidden)
        self.k_proj = _matrix(shape.kv_heads * shape.head_dim, shape.hidden)
        self.v_proj = _matrix(shape.kv_heads * shape.head_dim, shape.hidden)
        self.o_proj = _matrix(shape.hidden, attended, gain=1 / sqrt(2 * depth))
        self.q_norm = RMSNorm(shape.head_dim, shape.eps)
        self.k_norm = RMSNorm(shape.head_dim, shape.eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Map x [rows, n, hidden] to the same shape. cos, sin: [n, 1, head_dim]."""
        weight = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        heads = linear(x, weight).view(*x.shape[:2], -1, self._head_dim)
        query, key, value = heads.split((self._heads, self._kv_heads, self._kv_heads), 2)
        rotated = rotate(torch.cat((self.q_norm(query), self.k_norm(key)), 2), cos, sin).transpose(1, 2)
        attended = attend(rotated[:, : self._heads], rotated[:, self._heads :], value.transpose(1, 2))
        return linear(attended.transpose(1, 2).flatten(2), self.o_proj.weight)


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, shape: Transformer, depth: int) -> None:
        super().__init__()
        self.gate_proj = _matrix(shape.intermediate, shape.hidden)
        self.up_proj = _matrix(shape.intermediate, shape.hidden)
        self.down_proj = _matrix(shape.hidden, shape.intermediate, gain=1 / sqrt(2 * depth))

    def forward(self, x: Tensor) -> Tensor:
        """Map x [..., hidden] to the same shape."""
        gate, up = linear(x, torch.cat((self.gate_proj.weight, self.up_proj.weight))).chunk(2, -1)
        return linear(F.silu(gate) * up, self.down_proj.weight)


class Layer(nn.Module):
    """A pre-norm layer. dropout: of both branches."""

    def __init__(self, shape: Transformer, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape, shape.layers)
        self.mlp = FeedForward(shape, shape.layers)
        self._dropout = dropout

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Map x [rows, n, hidden] to the same shape."""
        x = x + self._drop(self.self_attn(self.input_layernorm(x), cos, sin, attend))
        return x + self._drop(self.mlp(self.post_attention_layernorm(x)))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self._dropout, self.training) if self._dropout else x


class Stack(nn.Module):
    """All layers and the final norm: the attribute ``model`` of the published names.

    attend: the attention function. positions: maximum length of a row.
    """

    def __init__(self, shape: Transformer, *, positions: int, dropout: float, attend: Attend) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)
        self._attend = attend
        cos, sin = rotary_tables(shape.head_dim, shape.rope_theta, positions)
        self.register_buffer("_cos", cos, persistent=False)
        self.register_buffer("_sin", sin, persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return the hidden states after the final norm of x [rows, n, hidden] at ``positions`` [n]."""
        cos, sin = (self.get_buffer(name)[positions].to(x.dtype).unsqueeze(-2) for name in ("_cos", "_sin"))
        for layer in self.layers:
            x = layer(x, cos, sin, self._attend)
        normalized: Tensor = self.norm(x)
        return normalized


def rotary_tables(head_dim: int, theta: float, positions: int) -> tuple[Tensor, Tensor]:
    """Return cos and sin [positions, head_dim] of half rotation (RoFormer; SPEC 2), the first half of sin negated."""
    angles = torch.outer(torch.arange(positions), theta ** (-torch.arange(0, head_dim, 2) / head_dim))
    return torch.cat((angles.cos(), angles.cos()), -1), torch.cat((-angles.sin(), angles.sin()), -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate x [..., head_dim] to the positions of cos and sin."""
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


def _matrix(outputs: int, inputs: int, gain: float = 1.0) -> nn.Linear:
    """Return a linear layer without bias that scales the RMS of its input by ``gain``."""
    matrix = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(matrix.weight, std=gain / sqrt(inputs))
    return matrix
