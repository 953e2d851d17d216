"""The Triton kernels of Code2Wav: attention, matrix products and row-wise operations."""

from __future__ import annotations

import triton
import triton.language as tl

_FLOAT16_MAX: tl.constexpr = tl.constexpr(65504.0)
"""The largest finite float16."""


@triton.jit
def rounded(y, out_ptr):
    """Convert y to the type that ``out_ptr`` points to. NaN stays NaN.

    In float16, clamp to the largest finite value: later layers would turn an infinity into NaN, and the NaN would stay
    in the stream's state.
    """
    if out_ptr.dtype.element_ty == tl.float16:
        y = tl.maximum(y.to(tl.float32), -_FLOAT16_MAX, propagate_nan=tl.PropagateNan.ALL)
        y = tl.minimum(y, _FLOAT16_MAX, propagate_nan=tl.PropagateNan.ALL)
    return y.to(out_ptr.dtype.element_ty)


@triton.jit
def swiglu(gate, up):
    """Return silu(gate) * up, in float32."""
    return gate / (1.0 + tl.exp(-gate)) * up


@triton.jit
def swiglu_rows(x_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """SwiGLU of x [rows, 2 WIDTH], gate then up -> out [rows, WIDTH]. Grid: (rows, blocks of columns)."""
    row, column = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = column < WIDTH
    gate = tl.load(x_ptr + row * 2 * WIDTH + column, mask, 0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * WIDTH + WIDTH + column, mask, 0.0).to(tl.float32)
    tl.store(out_ptr + row * WIDTH + column, rounded(swiglu(gate, up), out_ptr), mask)


@triton.jit
def _rotated(low, high, positions, frequencies):
    """Rotate both halves of rows [n, HALF] to their positions."""
    angles = positions[:, None].to(tl.float32) * frequencies[None, :]
    cosine, sine = tl.cos(angles), tl.sin(angles)
    return low * cosine - high * sine, high * cosine + low * sine


@triton.jit(do_not_specialize=["frames", "window", "cache_stream"])
def window_attention(
    qkv_ptr, out_ptr, keys_ptr, values_ptr, row_ptr, positions_ptr, frequencies_ptr,
    frames, window, cache_stream, softmax_scale,
    HEADS: tl.constexpr, HALF: tl.constexpr, RING: tl.constexpr, FRAMES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sliding-window attention of the new frames of one stream and head, over the ring buffer and each other.

    Then store the new keys and values in the ring buffer.

    qkv: [streams, frames, 3, HEADS, 2 HALF]. out: [streams, frames, HEADS, 2 HALF]. keys, values: one layer's
    [HEADS, RING, 2 HALF] of row 0; the stride between rows is ``cache_stream`` elements. Position p is in slot
    p % RING. RING >= window - 1 + frames, so that no slot is overwritten that a query still needs.
    """
    stream, head = tl.program_id(0), tl.program_id(1)
    row = tl.load(row_ptr + stream)
    position = tl.load(positions_ptr + row)
    frame, half, slot = tl.arange(0, FRAMES), tl.arange(0, HALF), tl.arange(0, RING)
    is_frame = frame < frames
    frequencies = tl.load(frequencies_ptr + half)
    width = 2 * HALF
    offset = ((stream * frames + frame) * (3 * HEADS) + head) * width
    low_offset, mask = offset[:, None] + half[None, :], is_frame[:, None]
    part_stride = HEADS * width
    query_low = tl.load(qkv_ptr + low_offset, mask=mask, other=0.0).to(tl.float32) * softmax_scale
    query_high = tl.load(qkv_ptr + low_offset + HALF, mask=mask, other=0.0).to(tl.float32) * softmax_scale
    key_low = tl.load(qkv_ptr + low_offset + part_stride, mask=mask, other=0.0).to(tl.float32)
    key_high = tl.load(qkv_ptr + low_offset + part_stride + HALF, mask=mask, other=0.0).to(tl.float32)
    value_low = tl.load(qkv_ptr + low_offset + 2 * part_stride, mask=mask, other=0.0)
    value_high = tl.load(qkv_ptr + low_offset + 2 * part_stride + HALF, mask=mask, other=0.0)
    query_low, query_high = _rotated(query_low, query_high, position + frame, frequencies)
    key_low, key_high = _rotated(key_low, key_high, position + frame, frequencies)
    query_low, query_high = rounded(query_low, keys_ptr), rounded(query_high, keys_ptr)
    key_low, key_high = rounded(key_low, keys_ptr), rounded(key_high, keys_ptr)

    cache = row * cache_stream + head * (RING * width)
    last_position = position - 1
    cached_position = last_position - (last_position - slot + RING) % RING
    is_cached = (cached_position >= 0) & (cached_position > position - window)
    cache_offset = cache + slot[:, None] * width + half[None, :]
    past_low = tl.load(keys_ptr + cache_offset, mask=is_cached[:, None], other=0.0)
    past_high = tl.load(keys_ptr + cache_offset + HALF, mask=is_cached[:, None], other=0.0)
    # loaded here and not after the softmax, to hide their latency
    past_value_low = tl.load(values_ptr + cache_offset, mask=is_cached[:, None], other=0.0)
    past_value_high = tl.load(values_ptr + cache_offset + HALF, mask=is_cached[:, None], other=0.0)
    past = tl.dot(query_low, tl.trans(past_low), input_precision=PRECISION)
    past = tl.dot(query_high, tl.trans(past_high), past, input_precision=PRECISION)
    visible = is_cached[None, :] & (cached_position[None, :] > (position + frame)[:, None] - window)
    past = tl.where(visible, past, float("-inf"))
    recent = tl.dot(query_low, tl.trans(key_low), input_precision=PRECISION)
    recent = tl.dot(query_high, tl.trans(key_high), recent, input_precision=PRECISION)
    visible = (frame[None, :] <= frame[:, None]) & (frame[None, :] > frame[:, None] - window)
    recent = tl.where(visible, recent, float("-inf"))
    max_score = tl.maximum(tl.max(past, 1), tl.max(recent, 1))
    past, recent = tl.exp(past - max_score[:, None]), tl.exp(recent - max_score[:, None])
    weight_sum = tl.sum(past, 1) + tl.sum(recent, 1)
    past, recent = past.to(keys_ptr.dtype.element_ty), recent.to(keys_ptr.dtype.element_ty)
    mixed_low = tl.dot(past, past_value_low, input_precision=PRECISION)
    mixed_high = tl.dot(past, past_value_high, input_precision=PRECISION)
    mixed_low = tl.dot(recent, value_low, mixed_low, input_precision=PRECISION) / weight_sum[:, None]
    mixed_high = tl.dot(recent, value_high, mixed_high, input_precision=PRECISION) / weight_sum[:, None]
    out = ((stream * frames + frame) * HEADS + head)[:, None] * width + half[None, :]
    tl.store(out_ptr + out, rounded(mixed_low, out_ptr), mask=mask)
    tl.store(out_ptr + out + HALF, rounded(mixed_high, out_ptr), mask=mask)
    cache_offset = cache + ((position + frame) % RING)[:, None] * width + half[None, :]
    tl.store(keys_ptr + cache_offset, key_low, mask=mask)
    tl.store(keys_ptr + cache_offset + HALF, key_high, mask=mask)
    tl.store(values_ptr + cache_offset, value_low, mask=mask)
    tl.store(values_ptr + cache_offset + HALF, value_high, mask=mask)


NO_ACTIVATION: tl.constexpr = tl.constexpr(0)
SNAKE: tl.constexpr = tl.constexpr(1)
GELU: tl.constexpr = tl.constexpr(2)


@triton.jit
def sine_squared(x):
    """Return sin(x)^2 in float32, by reduction to half a period. Error within 1e-6 for exact x; result at most 1."""
    half_periods = tl.floor(x * 0.3183098861837907 + 0.5)
    x_reduced = (x - half_periods * 3.140625) - half_periods * 9.6765358979311599796e-4
    z = x_reduced * x_reduced
    p = -2.505210838544172e-8
    p = p * z + 2.755731922398589e-6
    p = p * z - 1.984126984126984e-4
    p = p * z + 8.333333333333333e-3
    p = p * z - 1.666666666666667e-1
    sine = x_reduced + x_reduced * z * p
    return tl.minimum(sine * sine, 1.0)


@triton.jit
def activated(y, column, mask, frequency_ptr, gain_ptr, ACTIVATION: tl.constexpr):
    """Apply SnakeBeta or GELU to y [BM, BN]. column: its column indices."""
    if ACTIVATION == SNAKE:
        frequency = tl.load(frequency_ptr + column, mask=mask, other=0.0)
        gain = tl.load(gain_ptr + column, mask=mask, other=0.0)
        y += sine_squared(y * frequency[None, :]) * gain[None, :]
    if ACTIVATION == GELU:
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    return y


@triton.jit(do_not_specialize=["dilation", "length", "rows"])
def causal_product(
    x_ptr, w_ptr, bias_ptr, scale_ptr, residual_ptr, raw_ptr, act_ptr, frequency_ptr, gain_ptr,
    rows, length, N, K, inputs, dilation, x_stream, residual_stream, raw_stream, act_stream,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr, SCALE: tl.constexpr,
    RESIDUAL: tl.constexpr, RAW: tl.constexpr, ACT: tl.constexpr, ACTIVATION: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Causal convolution as a matrix product: y = x W + bias, optionally scaled and added to a residual.

    Store y unchanged (RAW), activated (ACT), or both.

    x: [streams, length + history, inputs]. w: [K = taps * inputs, N]. y: [streams, length, N], rows of N elements.
    *_stream: stride between streams, in elements. rows: streams * length.
    """
    blocks = tl.cdiv(N, BN)
    program = tl.program_id(0)
    out_column = (program % blocks) * BN + tl.arange(0, BN)
    out_row = (program // blocks) * BM + tl.arange(0, BM)
    in_columns = out_column < N
    in_rows = out_row < rows
    row = tl.minimum(out_row, rows - 1)
    stream, time = row // length, row % length
    x_rows = x_ptr + (stream * x_stream + time * inputs)[:, None]
    w_columns = w_ptr + (out_column % N)[None, :]
    accumulator = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        offsets = (k // inputs) * (dilation * inputs) + k % inputs
        if EVEN:
            a = tl.load(x_rows + offsets[None, :])
            b = tl.load(w_columns + k[:, None] * N)
        else:
            a = tl.load(x_rows + offsets[None, :], mask=k[None, :] < K, other=0.0)
            b = tl.load(w_columns + k[:, None] * N, mask=k[:, None] < K, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    y = accumulator + tl.load(bias_ptr + out_column, mask=in_columns, other=0.0)[None, :]
    mask = in_rows[:, None] & in_columns[None, :]
    if SCALE:
        y *= tl.load(scale_ptr + out_column, mask=in_columns, other=0.0)[None, :]
    if RESIDUAL:
        offset = (stream * residual_stream + time * N)[:, None] + out_column[None, :]
        y += tl.load(residual_ptr + offset, mask=mask, other=0.0).to(tl.float32)
    if RAW:
        offset = (stream * raw_stream + time * N)[:, None] + out_column[None, :]
        tl.store(raw_ptr + offset, rounded(y, raw_ptr), mask=mask)
    if ACT:
        offset = (stream * act_stream + time * N)[:, None] + out_column[None, :]
        y = activated(y, out_column, in_columns, frequency_ptr, gain_ptr, ACTIVATION)
        tl.store(act_ptr + offset, rounded(y, act_ptr), mask=mask)


@triton.jit(do_not_specialize=["frames", "out_stream"])
def sum_codebooks(
    codes_ptr, table_ptr, out_ptr, frames, out_stream, entries,
    BOOKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the codebook vectors of each frame: codes [streams, frames, BOOKS] -> out [streams, frames, WIDTH]."""
    frame = tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    mask = channel < WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    for book in tl.static_range(BOOKS):
        entry = tl.load(codes_ptr + frame * BOOKS + book) + book * entries
        total += tl.load(table_ptr + entry * WIDTH + channel, mask=mask, other=0.0).to(tl.float32)
    offset = (frame // frames) * out_stream + (frame % frames) * WIDTH + channel
    tl.store(out_ptr + offset, rounded(total, out_ptr), mask=mask)


@triton.jit
def rms_norm(x_ptr, gain_ptr, out_ptr, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """RMSNorm of x [rows, WIDTH]."""
    channel = tl.arange(0, BLOCK)
    mask = channel < WIDTH
    offset = tl.program_id(0) * WIDTH + channel
    x = tl.load(x_ptr + offset, mask=mask, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / WIDTH + eps)
    y = x * scale * tl.load(gain_ptr + channel, mask=mask, other=0.0)
    tl.store(out_ptr + offset, rounded(y, out_ptr), mask=mask)


@triton.jit(do_not_specialize=["length", "x_stream"])
def depthwise_norm(
    x_ptr, w_ptr, bias_ptr, gain_ptr, shift_ptr, out_ptr, length, x_stream, eps,
    TAPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Depthwise convolution of x [streams, TAPS - 1 + length, WIDTH], then LayerNorm -> [streams, length, WIDTH]."""
    program = tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    mask = channel < WIDTH
    x_start = x_ptr + (program // length) * x_stream + (program % length) * WIDTH + channel
    y = tl.load(bias_ptr + channel, mask=mask, other=0.0)
    for tap in tl.static_range(TAPS):
        x = tl.load(x_start + tap * WIDTH, mask=mask, other=0.0).to(tl.float32)
        y += x * tl.load(w_ptr + tap * WIDTH + channel, mask=mask, other=0.0)
    mean = tl.sum(y, 0) / WIDTH
    y = tl.where(mask, y - mean, 0.0)
    y *= 1.0 / tl.sqrt(tl.sum(y * y, 0) / WIDTH + eps)
    y = y * tl.load(gain_ptr + channel, mask=mask, other=0.0) + tl.load(shift_ptr + channel, mask=mask, other=0.0)
    tl.store(out_ptr + program * WIDTH + channel, rounded(y, out_ptr), mask=mask)


@triton.jit(do_not_specialize=["rows", "length", "x_stream"])
def last_convolution(
    x_ptr, w_ptr, bias_ptr, out_ptr, rows, length, x_stream,
    TAPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """One-channel convolution of x [streams, TAPS - 1 + length, WIDTH] -> samples [streams, length] in [-1, 1].

    int16 samples are scaled by 32767 and rounded half to even: adding 1.5 * 2^23 removes the fraction of a float32. NaN
    becomes -32768.
    """
    out_row = tl.program_id(0) * BM + tl.arange(0, BM)
    in_rows = out_row < rows
    row = tl.minimum(out_row, rows - 1)
    channel = tl.arange(0, BLOCK)
    mask = channel < WIDTH
    x_start = x_ptr + ((row // length) * x_stream + (row % length) * WIDTH)[:, None] + channel[None, :]
    total = tl.zeros((BM, BLOCK), tl.float32)
    for tap in tl.static_range(TAPS):
        x = tl.load(x_start + tap * WIDTH, mask=mask[None, :], other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + tap * WIDTH + channel, mask=mask, other=0.0)[None, :]
    y = tl.sum(total, 1) + tl.load(bias_ptr)
    is_number = y == y
    y = tl.where(is_number, tl.minimum(tl.maximum(y, -1.0), 1.0), y)
    if out_ptr.dtype.element_ty == tl.int16:
        y = tl.where(is_number, (y * 32767.0 + 12582912.0) - 12582912.0, -32768.0)
    tl.store(out_ptr + out_row, y.to(out_ptr.dtype.element_ty), mask=in_rows)


@triton.jit(do_not_specialize=["columns_stream"])
def move_columns(
    columns_ptr, work_ptr, row_ptr, plan_ptr, columns_stream,
    SAVE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Copy the convolutions' state from the streams' memory to the start of their inputs, or (SAVE) back from the end.

    plan: int64 [layers, 5], all in elements: offset of the layer's state in a stream's memory; size of that state;
    offset of the first stream's input in ``work``; stride between streams in ``work``; offset of the saved part in an
    input.
    """
    stream, layer, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = tl.load(row_ptr + stream)
    plan = plan_ptr + layer * 5
    size = tl.load(plan + 1)
    columns = columns_ptr + row * columns_stream + tl.load(plan)
    work = work_ptr + tl.load(plan + 2) + stream * tl.load(plan + 3)
    for start in range(part * BLOCK, size, PARTS * BLOCK):
        offset = start + tl.arange(0, BLOCK)
        mask = offset < size
        if SAVE:
            tl.store(columns + offset, tl.load(work + tl.load(plan + 4) + offset, mask=mask), mask=mask)
        else:
            tl.store(work + offset, tl.load(columns + offset, mask=mask), mask=mask)
