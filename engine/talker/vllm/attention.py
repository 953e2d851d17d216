"""Attention of vLLM's Qwen3 with one launch in the place of three: both norms of the heads, and the rotation."""

from __future__ import annotations

from collections.abc import Iterable
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from vllm import _custom_ops

_HEADS = (64, 128, 256)
"""Sizes of heads that the operator was made for."""


def fuse(layers: Iterable[Any], dtype: torch.dtype) -> None:
    """Let every layer's attention use vLLM's own fused operator, where this vLLM and this device have it.

    It works in place on what the product has made, in float32 within; vLLM itself uses it only in compiled models.
    """
    operator = getattr(torch.ops._C, "fused_qk_norm_rope", None)
    if operator is None or dtype != torch.bfloat16 or not torch.cuda.is_available():
        return
    for layer in layers:
        if layer.self_attn.head_dim in _HEADS:
            layer.self_attn.forward = MethodType(attend, layer.self_attn)


def attend(attention: Any, positions: Tensor, hidden_states: Tensor) -> Tensor:
    """The forward of vLLM's Qwen3Attention: rows [n, hidden] at ``positions`` [n] -> [n, hidden]."""
    qkv, _ = attention.qkv_proj(hidden_states)
    _custom_ops.fused_qk_norm_rope(
        qkv,
        attention.num_heads,
        attention.num_kv_heads,
        attention.num_kv_heads,
        attention.head_dim,
        attention.q_norm.variance_epsilon,
        attention.q_norm.weight,
        attention.k_norm.weight,
        attention.rotary_emb.cos_sin_cache,
        attention.rotary_emb.is_neox_style,
        positions.view(-1),
    )
    q, k, v = qkv.split([attention.q_size, attention.kv_size, attention.kv_size], dim=-1)
    output, _ = attention.o_proj(attention.attn(q, k, v))
    return output
