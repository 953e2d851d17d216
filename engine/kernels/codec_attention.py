"""Code2Wav's sliding-window attention in one Triton launch, on rings of keys and values in the streams' own memory."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.triton_parts import rounded


@triton.jit
def _rotated(low, high, positions, frequencies):
    """Both halves of rows [n, HALF] turned to their positions."""
    angles = positions[:, None].to(tl.float32) * frequencies[None, :]
    cosine, sine = tl.cos(angles), tl.sin(angles)
    return low * cosine - high * sine, high * cosine + low * sine


@triton.jit(do_not_specialize=["frames", "window", "cache_stream"])
def window_attention(
    qkv_ptr, out_ptr, keys_ptr, values_ptr, row_ptr, positions_ptr, frequencies_ptr,
    frames, window, cache_stream, softmax_scale,
    HEADS: tl.constexpr, HALF: tl.constexpr, RING: tl.constexpr, FRAMES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """New frames of one stream and head: they look at the ring and at each other, and enter the ring.

    qkv: [streams, frames, 3, HEADS, 2 HALF]; out: [streams, frames, HEADS, 2 HALF]; keys, values: one layer's
    [HEADS, RING, 2 HALF] of row 0, ``cache_stream`` elements from a row to the next. A position p is in slot p % RING;
    RING >= window - 1 + frames, so that no slot is written that a query still needs.
    """
    stream, head = tl.program_id(0), tl.program_id(1)
    row = tl.load(row_ptr + stream)
    position = tl.load(positions_ptr + row)
    new, half, slot = tl.arange(0, FRAMES), tl.arange(0, HALF), tl.arange(0, RING)
    given = new < frames
    frequencies = tl.load(frequencies_ptr + half)
    width = 2 * HALF
    at = ((stream * frames + new) * (3 * HEADS) + head) * width
    low, shown = at[:, None] + half[None, :], given[:, None]
    kind = HEADS * width
    query_low = tl.load(qkv_ptr + low, mask=shown, other=0.0).to(tl.float32) * softmax_scale
    query_high = tl.load(qkv_ptr + low + HALF, mask=shown, other=0.0).to(tl.float32) * softmax_scale
    key_low = tl.load(qkv_ptr + low + kind, mask=shown, other=0.0).to(tl.float32)
    key_high = tl.load(qkv_ptr + low + kind + HALF, mask=shown, other=0.0).to(tl.float32)
    value_low = tl.load(qkv_ptr + low + 2 * kind, mask=shown, other=0.0)
    value_high = tl.load(qkv_ptr + low + 2 * kind + HALF, mask=shown, other=0.0)
    query_low, query_high = _rotated(query_low, query_high, position + new, frequencies)
    key_low, key_high = _rotated(key_low, key_high, position + new, frequencies)
    query_low, query_high = rounded(query_low, keys_ptr), rounded(query_high, keys_ptr)
    key_low, key_high = rounded(key_low, keys_ptr), rounded(key_high, keys_ptr)

    cache = row * cache_stream + head * (RING * width)
    last = position - 1
    held = last - (last - slot + RING) % RING
    kept = (held >= 0) & (held > position - window)
    place = cache + slot[:, None] * width + half[None, :]
    past_low = tl.load(keys_ptr + place, mask=kept[:, None], other=0.0)
    past_high = tl.load(keys_ptr + place + HALF, mask=kept[:, None], other=0.0)
    past = tl.dot(query_low, tl.trans(past_low), input_precision=PRECISION)
    past = tl.dot(query_high, tl.trans(past_high), past, input_precision=PRECISION)
    seen = kept[None, :] & (held[None, :] > (position + new)[:, None] - window)
    past = tl.where(seen, past, float("-inf"))
    own = tl.dot(query_low, tl.trans(key_low), input_precision=PRECISION)
    own = tl.dot(query_high, tl.trans(key_high), own, input_precision=PRECISION)
    seen = (new[None, :] <= new[:, None]) & (new[None, :] > new[:, None] - window)
    own = tl.where(seen, own, float("-inf"))
    most = tl.maximum(tl.max(past, 1), tl.max(own, 1))
    past, own = tl.exp(past - most[:, None]), tl.exp(own - most[:, None])
    whole = tl.sum(past, 1) + tl.sum(own, 1)
    past, own = past.to(keys_ptr.dtype.element_ty), own.to(keys_ptr.dtype.element_ty)
    past_low = tl.load(values_ptr + place, mask=kept[:, None], other=0.0)
    past_high = tl.load(values_ptr + place + HALF, mask=kept[:, None], other=0.0)
    mixed_low = tl.dot(past, past_low, input_precision=PRECISION)
    mixed_high = tl.dot(past, past_high, input_precision=PRECISION)
    mixed_low = tl.dot(own, value_low, mixed_low, input_precision=PRECISION) / whole[:, None]
    mixed_high = tl.dot(own, value_high, mixed_high, input_precision=PRECISION) / whole[:, None]
    out = ((stream * frames + new) * HEADS + head)[:, None] * width + half[None, :]
    tl.store(out_ptr + out, rounded(mixed_low, out_ptr), mask=shown)
    tl.store(out_ptr + out + HALF, rounded(mixed_high, out_ptr), mask=shown)
    place = cache + ((position + new) % RING)[:, None] * width + half[None, :]
    tl.store(keys_ptr + place, key_low, mask=shown)
    tl.store(keys_ptr + place + HALF, key_high, mask=shown)
    tl.store(values_ptr + place, value_low, mask=shown)
    tl.store(values_ptr + place + HALF, value_high, mask=shown)
