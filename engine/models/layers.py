"""Parts that several of the networks share: normalisation, rotary positions, attention."""

from __future__ import annotations

from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

_NOTHING = torch.zeros(())


class RMSNorm:
    """RMSNorm over the last axis: normalised in float32, cast to x's type, then scaled (SPEC 2).

    weight: [width], or [..., width] for a weight of its own for every row of x [..., width].
    In float32 x / sqrt(mean(x^2) + eps) is computed as sqrt(width) x / hypot(|x|, sqrt(width eps)): four small
    kernels where torch's takes seven, which for a few rows is half the time.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._width, self._eps = weight.shape[-1], eps
        self._single = weight.dtype == torch.float32
        self._gain = weight * sqrt(self._width) if self._single else weight
        self._floor = torch.tensor(sqrt(self._width * eps), device=weight.device)

    def __call__(self, x: Tensor) -> Tensor:
        """x of the weight's type, normalised."""
        if self._single:
            return (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self._floor)).mul_(self._gain)
        return F.rms_norm(x.float(), (self._width,), None, self._eps).to(x.dtype) * self._gain


class Rotary:
    """Rotary position embedding, half rotation (RoFormer; SPEC 2).

    The sine's first half is negated here, so that rotating is one roll and two products.
    """

    def __init__(self, head_dim: int, theta: float, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        self.half = head_dim // 2
        exponents = torch.arange(0, head_dim, 2, device=device, dtype=torch.int64).float() / head_dim
        angles = torch.outer(torch.arange(positions, device=device).float(), 1.0 / theta**exponents)
        self.cos = torch.cat((angles.cos(), angles.cos()), -1).to(dtype)
        self.sin = torch.cat((-angles.sin(), angles.sin()), -1).to(dtype)

    def at(self, positions: Tensor | slice) -> tuple[Tensor, Tensor]:
        """cos and sin [n, 1, head_dim] of n positions, ready to rotate [n, heads, head_dim]."""
        return self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x [..., head_dim] turned to the positions of cos and sin."""
        return torch.addcmul(x * cos, x.roll(self.half, -1), sin)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax attention of query [n, q, d], key and value [n, k, d]; mask [q, k] is added to the scores.

    On a CPU it is written out: the fused kernel's result depends on how many sequences are in the call. Scale and mask
    are part of the first product.
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    added, weight = (_NOTHING.to(query.dtype), 0) if mask is None else (mask, 1)
    scores = torch.baddbmm(added, query, key.transpose(1, 2), beta=weight, alpha=query.shape[-1] ** -0.5)
    return torch.bmm(torch.softmax(scores, -1), value)


def causal_mask(queries: int, past: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """[queries, past + queries]: 0 where a query may look, -inf at later positions."""
    mask = torch.full((queries, past + queries), float("-inf"), device=device, dtype=dtype)
    return mask.triu_(past + 1)
