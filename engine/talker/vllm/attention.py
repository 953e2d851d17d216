"""Attention of vLLM's Qwen3 with one launch in the place of three: both norms of the heads, and the rotation."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from vllm import _custom_ops

from engine.kernels.fallback import reason_for_plain, require_gpu

_HEADS = (64, 128, 256)
"""Sizes of heads that the operator was made for."""
_TRIED_ROWS = 2
_log = logging.getLogger(__name__)


def fuse(layers: Iterable[Any], dtype: torch.dtype) -> None:
    """Let every layer's attention use vLLM's own fused operator, where this vLLM and this device have it.

    It works in place on what the product has made, in float32 within; vLLM itself uses it only in compiled models. It
    is no public part of vLLM, so it is called once first: with an error vLLM's own forward stays.
    """
    operator = getattr(torch.ops._C, "fused_qk_norm_rope", None)
    if operator is None or dtype != torch.bfloat16 or not torch.cuda.is_available():
        return
    attentions = [layer.self_attn for layer in layers if layer.self_attn.head_dim in _HEADS]
    try:
        for attention in attentions[:1]:
            _try_out(attention)
    except Exception as error:
        _log.info("norms and rotation of the talker's heads are vLLM's own launches: %s", reason_for_plain(error))
        return
    for attention in attentions:
        attention.forward = MethodType(attend, attention)


def attend(attention: Any, positions: Tensor, hidden_states: Tensor) -> Tensor:
    """The forward of vLLM's Qwen3Attention: rows [n, hidden] at ``positions`` [n] -> [n, hidden]."""
    qkv, _ = attention.qkv_proj(hidden_states)
    _norm_and_rotate(attention, qkv, positions)
    q, k, v = qkv.split([attention.q_size, attention.kv_size, attention.kv_size], dim=-1)
    output, _ = attention.o_proj(attention.attn(q, k, v))
    return output


def _norm_and_rotate(attention: Any, qkv: Tensor, positions: Tensor) -> None:
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


def _try_out(attention: Any) -> None:
    """With the shapes that a step has. Raises whatever the operator does."""
    like = attention.q_norm.weight
    qkv = torch.zeros(_TRIED_ROWS, attention.q_size + 2 * attention.kv_size, dtype=like.dtype, device=like.device)
    _norm_and_rotate(attention, qkv, torch.arange(_TRIED_ROWS, device=like.device))
    require_gpu()
