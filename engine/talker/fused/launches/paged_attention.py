"""Attention of single rows over vLLM's paged KV cache, with RMSNorm and RoPE of queries and keys before it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize_on_alignment=["slots_ptr"])
def store_heads(
    qkv_ptr, q_gain_ptr, k_gain_ptr, cos_ptr, sin_ptr, positions_ptr, slots_ptr, keys_ptr, values_ptr, eps,
    page_stride, position_stride, head_stride,
    KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Normalize and rotate the queries and keys of row program_id(0), and cache its keys and values.

    qkv [rows, (GROUPS + 2) KV_HEADS D]; queries are written back. A row whose slot is negative caches nothing. PADDED:
    at least the number of heads of a row, keys and values included.
    """
    row = tl.program_id(0)
    HALF: tl.constexpr = D // 2
    HEADS: tl.constexpr = KV_HEADS * GROUPS
    head, d = tl.arange(0, PADDED)[:, None], tl.arange(0, HALF)[None, :]
    present = head < HEADS + 2 * KV_HEADS
    is_query, is_value = head < HEADS, head >= HEADS + KV_HEADS
    at = qkv_ptr + row * (HEADS + 2 * KV_HEADS) * D + head * D + d
    low, high = tl.load(at, present, 0.0).to(tl.float32), tl.load(at + HALF, present, 0.0).to(tl.float32)
    scale = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / D + eps)[:, None]
    gain_low = tl.where(is_query, tl.load(q_gain_ptr + d), tl.load(k_gain_ptr + d))
    gain_high = tl.where(is_query, tl.load(q_gain_ptr + HALF + d), tl.load(k_gain_ptr + HALF + d))
    position = tl.load(positions_ptr + row)
    cos, sin = tl.load(cos_ptr + position * HALF + d), tl.load(sin_ptr + position * HALF + d)
    normed_low, normed_high = low * scale * gain_low, high * scale * gain_high
    new_low = tl.where(is_value, low, normed_low * cos - normed_high * sin)
    new_high = tl.where(is_value, high, normed_high * cos + normed_low * sin)
    dtype = qkv_ptr.dtype.element_ty
    tl.store(at, new_low.to(dtype), is_query)
    tl.store(at + HALF, new_high.to(dtype), is_query)

    slot = tl.load(slots_ptr + row)
    if slot >= 0:
        cached = (slot // PAGE) * page_stride + (slot % PAGE) * position_stride + d
        key, value = cached + (head - HEADS) * head_stride, cached + (head - HEADS - KV_HEADS) * head_stride
        is_key, is_value = (head >= HEADS) & (head < HEADS + KV_HEADS), present & is_value
        dtype = keys_ptr.dtype.element_ty
        tl.store(keys_ptr + key, new_low.to(dtype), is_key)
        tl.store(keys_ptr + key + HALF, new_high.to(dtype), is_key)
        tl.store(values_ptr + value, new_low.to(dtype), is_value)
        tl.store(values_ptr + value + HALF, new_high.to(dtype), is_value)


@triton.jit(do_not_specialize=["table_width"])
def attend_rows(
    qkv_ptr, keys_ptr, values_ptr, pages_ptr, positions_ptr, out_ptr, softmax_scale, table_width,
    page_stride, position_stride, head_stride,
    KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
    QUERIES: tl.constexpr,
):  # fmt: skip
    """Attend with the query heads of KV head program_id(0) of row program_id(1) to all positions up to the row's own.

    qkv: queries first, after ``store_heads``. pages: int32 [rows, table_width], the pages of each row. out [rows, heads
    D]. QUERIES: GROUPS, padded to the smallest matrix product.
    """
    head, row = tl.program_id(0), tl.program_id(1)
    HEADS: tl.constexpr = KV_HEADS * GROUPS
    g, d, p = tl.arange(0, QUERIES), tl.arange(0, D), tl.arange(0, BLOCK)
    query = qkv_ptr + row * (HEADS + 2 * KV_HEADS) * D + (head * GROUPS + g[:, None]) * D + d[None, :]
    q = tl.load(query, g[:, None] < GROUPS, 0.0)
    count = tl.load(positions_ptr + row) + 1
    largest = tl.full((QUERIES,), float("-inf"), tl.float32)
    mass = tl.zeros((QUERIES,), tl.float32)
    total = tl.zeros((QUERIES, D), tl.float32)
    for start in tl.range(0, count, BLOCK, num_stages=1):
        at = start + p
        inside = at < count
        page = tl.load(pages_ptr + row * table_width + at // PAGE, inside, 0).to(tl.int64)
        cached = page * page_stride + (at % PAGE) * position_stride + head * head_stride
        k = tl.load(keys_ptr + cached[None, :] + d[:, None], inside[None, :], 0.0)
        scores = tl.dot(q, k, input_precision="ieee") * softmax_scale
        scores = tl.where(inside[None, :], scores, float("-inf"))
        highest = tl.maximum(largest, tl.max(scores, 1))
        kept, weights = tl.exp(largest - highest), tl.exp(scores - highest[:, None])
        v = tl.load(values_ptr + cached[:, None] + d[None, :], inside[:, None], 0.0)
        total = total * kept[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        mass = mass * kept + tl.sum(weights, 1)
        largest = highest
    out = out_ptr + row * HEADS * D + (head * GROUPS + g[:, None]) * D + d[None, :]
    tl.store(out, (total / mass[:, None]).to(out_ptr.dtype.element_ty), g[:, None] < GROUPS)
