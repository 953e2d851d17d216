"""The Triton kernels of Code2Wav: attention, matrix products and row-wise operations."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.triton_launch import settle_cache_keys

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


@triton.jit(do_not_specialize=["frames"])
def rotations(row_ptr, positions_ptr, frequencies_ptr, out_ptr, frames, HALF: tl.constexpr):
    """Cosines and sines of the rotary embedding of each new frame -> out [streams, frames, 2, HALF]."""
    query = tl.program_id(0)
    half = tl.arange(0, HALF)
    position = tl.load(positions_ptr + tl.load(row_ptr + query // frames)) + query % frames
    angles = position.to(tl.float32) * tl.load(frequencies_ptr + half)
    tl.store(out_ptr + query * (2 * HALF) + half, tl.cos(angles))
    tl.store(out_ptr + query * (2 * HALF) + HALF + half, tl.sin(angles))


@triton.jit
def _rotated(x_ptr, rotation_ptr, mask, HALF: tl.constexpr):
    """Load rows of 2 HALF channels, and rotate them."""
    channel = tl.arange(0, 2 * HALF)
    x = tl.load(x_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    partner = tl.load(x_ptr + (channel + HALF) % (2 * HALF), mask=mask, other=0.0).to(tl.float32)
    cosine = tl.load(rotation_ptr + channel % HALF, mask=mask, other=0.0)
    sine = tl.load(rotation_ptr + HALF + channel % HALF, mask=mask, other=0.0)
    return x * cosine + tl.where(channel < HALF, -partner, partner) * sine


@triton.jit
def _attend(query, keys, values, mask, max_score, weight_sum, mixed):
    """Add keys and values to a softmax per row: each row has its own maximum, sum of weights and sum of values."""
    scores = tl.where(mask, tl.sum(keys.to(tl.float32) * query[None, :], 1), float("-inf"))
    new_max = tl.maximum(max_score, scores)
    weights, decay = tl.exp(scores - new_max), tl.exp(max_score - new_max)
    mixed = mixed * decay[:, None] + values.to(tl.float32) * weights[:, None]
    return new_max, weight_sum * decay + weights, mixed


_LOWEST: tl.constexpr = tl.constexpr(-3e38)
"""Initial maximum: finite, because the difference of two infinities is NaN."""


@triton.jit(do_not_specialize=["frames"])
def window_attention(
    qkv_ptr, out_ptr, keys_ptr, values_ptr, row_ptr, positions_ptr, rotations_ptr, frames, cache_stream, softmax_scale,
    HEADS: tl.constexpr, HALF: tl.constexpr, RING: tl.constexpr, WINDOW: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Sliding-window attention of one new frame and head, over the ring buffer and the new frames up to its own.

    Then store its key and value in the ring buffer. Grid: (streams * frames, heads).

    qkv: [streams, frames, 3, HEADS, 2 HALF]. out: [streams, frames, HEADS, 2 HALF]. keys, values: one layer's
    [HEADS, RING, 2 HALF] of row 0; the stride between rows is ``cache_stream`` elements. Position p is in slot
    p % RING. RING is a power of two, and >= WINDOW - 1 + frames, so that no slot is overwritten that another program
    still needs. ROWS: keys at a time, 4 a warp. No data passes between warps until the end.
    """
    program, head = tl.program_id(0), tl.program_id(1)
    stream, frame = program // frames, program % frames
    row = tl.load(row_ptr + stream)
    position = tl.load(positions_ptr + row)
    WIDTH: tl.constexpr = 2 * HALF
    channel, index = tl.arange(0, WIDTH), tl.arange(0, ROWS)
    qkv_row: tl.constexpr = 3 * HEADS * WIDTH
    first = qkv_ptr + stream * frames * qkv_row + head * WIDTH
    first_rotation = rotations_ptr + stream * frames * WIDTH
    own, own_rotation = first + frame * qkv_row, first_rotation + frame * WIDTH
    always = channel >= 0
    query = rounded(_rotated(own, own_rotation, always, HALF) * softmax_scale, keys_ptr).to(tl.float32)
    cache = row * cache_stream + head * (RING * WIDTH)

    max_score, weight_sum = tl.full((ROWS,), _LOWEST, tl.float32), tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in tl.static_range(0, WINDOW - 1, ROWS):
        past = position + frame - (WINDOW - 1) + start + index
        mask = (past >= 0) & (past < position)
        at = (cache + (past & (RING - 1)) * WIDTH)[:, None] + channel[None, :]
        keys = tl.load(keys_ptr + at, mask=mask[:, None], other=0.0)
        values = tl.load(values_ptr + at, mask=mask[:, None], other=0.0)
        max_score, weight_sum, mixed = _attend(query, keys, values, mask, max_score, weight_sum, mixed)
    for start in range(0, frame + 1, ROWS):
        recent = start + index
        mask = (recent <= frame) & (recent > frame - WINDOW)
        key = first + (recent * qkv_row + HEADS * WIDTH)[:, None]
        keys = rounded(_rotated(key, first_rotation + (recent * WIDTH)[:, None], mask[:, None], HALF), keys_ptr)
        values = tl.load(key + HEADS * WIDTH + channel[None, :], mask=mask[:, None], other=0.0)
        max_score, weight_sum, mixed = _attend(query, keys, values, mask, max_score, weight_sum, mixed)
    scale = tl.exp(max_score - tl.max(max_score, 0))
    y = tl.sum(mixed * scale[:, None], 0) / tl.sum(weight_sum * scale, 0)
    tl.store(out_ptr + (program * HEADS + head) * WIDTH + channel, rounded(y, out_ptr))
    slot = cache + ((position + frame) & (RING - 1)) * WIDTH + channel
    key = _rotated(own + HEADS * WIDTH, own_rotation, always, HALF)
    tl.store(keys_ptr + slot, rounded(key, keys_ptr))
    tl.store(values_ptr + slot, tl.load(own + 2 * HEADS * WIDTH + channel))


@triton.jit(do_not_specialize=["streams", "frames"])
def advance(positions_ptr, row_ptr, streams, frames, BLOCK: tl.constexpr):
    """Add ``frames`` to the positions of the streams' rows. A padding row occurs several times, and gets any value."""
    stream = tl.arange(0, BLOCK)
    mask = stream < streams
    position = positions_ptr + tl.load(row_ptr + stream, mask=mask, other=0)
    tl.store(position, tl.load(position, mask=mask, other=0) + frames, mask=mask)


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
    x_ptr, w_ptr, bias_ptr, scale_ptr, residual_ptr, raw_ptr, act_ptr, frequency_ptr, gain_ptr, sums_ptr, counts_ptr,
    rows, length, N, K, inputs, dilation, x_stream, residual_stream, raw_stream, act_stream, norm_eps,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr, EVEN: tl.constexpr, NORM: tl.constexpr,
    SCALE: tl.constexpr, RESIDUAL: tl.constexpr, RAW: tl.constexpr, ACT: tl.constexpr, ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Causal convolution as a matrix product: y = x W + bias, optionally scaled and added to a residual.

    Store y unchanged (RAW), activated (ACT), or both. NORM: divide y by the root mean square of x, before the bias.
    Needs one tap and SPLITS = 1.

    x: [streams, length + history, inputs]. w: [K = taps * inputs, N]. y: [streams, length, N], rows of N elements.
    *_stream: stride between streams, in elements. rows: streams * length. Grid: (blocks of y, SPLITS).

    With SPLITS > 1 each program sums a part of K. It stores its sums, float32 [blocks, SPLITS, BM, BN]. The last
    program of a block adds them, in a fixed order. counts: int32, zero for each block before and after the launch.
    """
    tl.static_assert(not NORM or BM < 64 or x_ptr.dtype.element_ty == tl.float32, "NORM needs BM < 64: see codec_tiles")
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
    squares = tl.zeros((BM,), tl.float32)
    begin, end = 0, K
    if SPLITS > 1:
        span = tl.cdiv(K, BK * SPLITS) * BK
        begin = tl.program_id(1) * span
        end = tl.minimum(begin + span, K)
    for start in range(begin, end, BK):
        k = start + tl.arange(0, BK)
        offsets = (k // inputs) * (dilation * inputs) + k % inputs
        if EVEN:
            a = tl.load(x_rows + offsets[None, :])
            b = tl.load(w_columns + k[:, None] * N)
        else:
            a = tl.load(x_rows + offsets[None, :], mask=k[None, :] < K, other=0.0)
            b = tl.load(w_columns + k[:, None] * N, mask=k[:, None] < K, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        if NORM:
            squares += tl.sum(a.to(tl.float32) * a.to(tl.float32), 1)
    if NORM:
        accumulator *= (1.0 / tl.sqrt(squares / K + norm_eps))[:, None]
    mask = in_rows[:, None] & in_columns[None, :]
    if SPLITS > 1:
        block = sums_ptr + program * (SPLITS * BM * BN) + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        tl.store(block + tl.program_id(1) * (BM * BN), accumulator, mask=mask)
        tl.debug_barrier()  # the count is released by one thread, after the stores of all
        is_last = tl.atomic_add(counts_ptr + program, 1, sem="acq_rel") == SPLITS - 1
        mask = mask & is_last
        accumulator = tl.zeros((BM, BN), tl.float32)
        for split in tl.static_range(SPLITS):
            accumulator += tl.load(block + split * (BM * BN), mask=mask, other=0.0, cache_modifier=".cg")
        tl.store(counts_ptr + program, 0, mask=is_last)
    y = accumulator + tl.load(bias_ptr + out_column, mask=in_columns, other=0.0)[None, :]
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


@triton.jit(do_not_specialize=["frames"])
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


@triton.jit(do_not_specialize=["length"])
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


@triton.jit(do_not_specialize=["length"])
def last_convolution(
    x_ptr, w_ptr, bias_ptr, out_ptr, length, x_stream,
    TAPS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One-channel convolution of x [streams, TAPS - 1 + length, WIDTH] -> samples [streams, length] in [-1, 1].

    A program multiplies BM rows of x with all taps, and sums along diagonals: BM - TAPS + 1 samples. Column t of the
    product is tap t, column TAPS + t what rounding its weights to the type of x leaves of them. COLUMNS >= 2 TAPS.

    int16 samples are scaled by 32767 and rounded half to even: adding 1.5 * 2^23 removes the fraction of a float32. NaN
    becomes -32768.
    """
    SAMPLES: tl.constexpr = BM - TAPS + 1
    blocks = tl.cdiv(length, SAMPLES)
    stream, first = tl.program_id(0) // blocks, (tl.program_id(0) % blocks) * SAMPLES
    row, column = tl.arange(0, BM), tl.arange(0, COLUMNS)
    x_rows = x_ptr + stream * x_stream + (first + row)[:, None] * WIDTH
    in_x = (first + row < TAPS - 1 + length)[:, None]
    products = tl.zeros((BM, COLUMNS), tl.float32)
    for start in tl.static_range(0, WIDTH, BK):
        channel = start + tl.arange(0, BK)
        in_width = channel < WIDTH
        x = tl.load(x_rows + channel[None, :], mask=in_x & in_width[None, :], other=0.0)
        w = tl.load(w_ptr + (column % TAPS)[None, :] * WIDTH + channel[:, None], mask=in_width[:, None], other=0.0)
        w_rounded = w.to(x.dtype)
        w = tl.where((column < TAPS)[None, :], w_rounded, (w - w_rounded.to(tl.float32)).to(x.dtype))
        products = tl.dot(x, w, products, input_precision=PRECISION)
    diagonals = tl.gather(products, tl.minimum(row[:, None] + (column % TAPS)[None, :], BM - 1), 0)
    y = tl.sum(tl.where((column < 2 * TAPS)[None, :], diagonals, 0.0), 1) + tl.load(bias_ptr)
    is_number = y == y
    y = tl.where(is_number, tl.minimum(tl.maximum(y, -1.0), 1.0), y)
    if out_ptr.dtype.element_ty == tl.int16:
        y = tl.where(is_number, (y * 32767.0 + 12582912.0) - 12582912.0, -32768.0)
    mask = (row < SAMPLES) & (first + row < length)
    tl.store(out_ptr + stream * length + first + row, y.to(out_ptr.dtype.element_ty), mask=mask)


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


settle_cache_keys(__name__)
