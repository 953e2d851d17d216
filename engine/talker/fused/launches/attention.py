"""Attention for one new position of every row, fused with RMSNorm and RoPE of queries and keys."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.talker.fused.launches.products import load_sum


@triton.jit(do_not_specialize=["position"])
def attention(
    qkv_ptr, part_stride, q_gain_ptr, k_gain_ptr, cos_ptr, sin_ptr, keys_ptr, values_ptr, out_ptr, eps, softmax_scale,
    position, KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, D: tl.constexpr, PADDED: tl.constexpr,
    POSITIONS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Cache the new key and value of row program_id(0) and KV head program_id(1), and attend with its query heads.

    The query heads attend to all positions up to ``position``. qkv: float32 partial sums
    [PARTS, rows, (GROUPS + 2) KV_HEADS D] with stride ``part_stride`` between parts; keys, values
    [rows, KV_HEADS, POSITIONS, D]; out [rows, heads D].
    """
    row, head = tl.program_id(0), tl.program_id(1)
    HALF: tl.constexpr = D // 2
    HEADS: tl.constexpr = KV_HEADS * GROUPS
    d, g, p = tl.arange(0, HALF), tl.arange(0, GROUPS), tl.arange(0, PADDED)
    cos, sin = tl.load(cos_ptr + position * HALF + d), tl.load(sin_ptr + position * HALF + d)
    start = qkv_ptr + row * (HEADS + 2 * KV_HEADS) * D
    key = start + (HEADS + head) * D + d
    k_low, k_high = load_sum(key, part_stride, PARTS), load_sum(key + HALF, part_stride, PARTS)
    scale = tl.rsqrt((tl.sum(k_low * k_low) + tl.sum(k_high * k_high)) / D + eps)
    k_low, k_high = k_low * scale * tl.load(k_gain_ptr + d), k_high * scale * tl.load(k_gain_ptr + HALF + d)
    dtype = keys_ptr.dtype.element_ty
    new_low, new_high = (k_low * cos - k_high * sin).to(dtype), (k_high * cos + k_low * sin).to(dtype)
    value = start + (HEADS + KV_HEADS + head) * D + d
    v_low, v_high = load_sum(value, part_stride, PARTS).to(dtype), load_sum(value + HALF, part_stride, PARTS).to(dtype)
    cache = (row * KV_HEADS + head) * POSITIONS * D
    tl.store(keys_ptr + cache + position * D + d, new_low)
    tl.store(keys_ptr + cache + position * D + HALF + d, new_high)
    tl.store(values_ptr + cache + position * D + d, v_low)
    tl.store(values_ptr + cache + position * D + HALF + d, v_high)

    query = start + (head * GROUPS + g[:, None]) * D + d[None, :]
    q_low, q_high = load_sum(query, part_stride, PARTS), load_sum(query + HALF, part_stride, PARTS)
    q_scale = tl.rsqrt((tl.sum(q_low * q_low, 1) + tl.sum(q_high * q_high, 1)) / D + eps)[:, None]
    q_low, q_high = q_low * q_scale * tl.load(q_gain_ptr + d), q_high * q_scale * tl.load(q_gain_ptr + HALF + d)
    rotated_low, rotated_high = q_low * cos - q_high * sin, q_high * cos + q_low * sin

    cached = cache + p[:, None] * D + d[None, :]
    past, current = p[:, None] < position, p[:, None] == position
    k_low = tl.where(current, new_low[None, :], tl.load(keys_ptr + cached, past, 0.0)).to(tl.float32)
    k_high = tl.where(current, new_high[None, :], tl.load(keys_ptr + cached + HALF, past, 0.0)).to(tl.float32)
    v_low = tl.where(current, v_low[None, :], tl.load(values_ptr + cached, past, 0.0)).to(tl.float32)
    v_high = tl.where(current, v_high[None, :], tl.load(values_ptr + cached + HALF, past, 0.0)).to(tl.float32)
    products = rotated_low[:, None, :] * k_low[None, :, :] + rotated_high[:, None, :] * k_high[None, :, :]
    scores = tl.where(p[None, :] <= position, tl.sum(products, 2) * softmax_scale, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = weights / tl.sum(weights, 1)[:, None]
    out = out_ptr + (row * HEADS + head * GROUPS + g[:, None]) * D + d[None, :]
    out_dtype = out_ptr.dtype.element_ty
    tl.store(out, tl.sum(weights[:, :, None] * v_low[None, :, :], 1).to(out_dtype))
    tl.store(out + HALF, tl.sum(weights[:, :, None] * v_high[None, :, :], 1).to(out_dtype))
