"""The launches of Code2Wav on a GPU that are no matrix products: a program a row, or a piece of a stream's memory."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.triton_parts import rounded


@triton.jit(do_not_specialize=["frames", "out_stream"])
def sum_codebooks(
    codes_ptr, table_ptr, out_ptr, frames, out_stream, entries,
    BOOKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A frame's latent: codes [streams, frames, BOOKS] -> out [streams, frames, WIDTH], sums of rows of the table."""
    at = tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    inside = channel < WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    for book in tl.static_range(BOOKS):
        entry = tl.load(codes_ptr + at * BOOKS + book) + book * entries
        total += tl.load(table_ptr + entry * WIDTH + channel, mask=inside, other=0.0).to(tl.float32)
    place = (at // frames) * out_stream + (at % frames) * WIDTH + channel
    tl.store(out_ptr + place, rounded(total, out_ptr), mask=inside)


@triton.jit
def rms_norm(x_ptr, gain_ptr, out_ptr, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """RMSNorm of x [rows, WIDTH]."""
    channel = tl.arange(0, BLOCK)
    inside = channel < WIDTH
    place = tl.program_id(0) * WIDTH + channel
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / WIDTH + eps)
    y = x * scale * tl.load(gain_ptr + channel, mask=inside, other=0.0)
    tl.store(out_ptr + place, rounded(y, out_ptr), mask=inside)


@triton.jit(do_not_specialize=["length", "x_stream"])
def depthwise_norm(
    x_ptr, w_ptr, bias_ptr, gain_ptr, shift_ptr, out_ptr, length, x_stream, eps,
    TAPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Depthwise convolution of x [streams, TAPS - 1 + length, WIDTH], then LayerNorm -> [streams, length, WIDTH]."""
    at = tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    inside = channel < WIDTH
    first = x_ptr + (at // length) * x_stream + (at % length) * WIDTH + channel
    y = tl.load(bias_ptr + channel, mask=inside, other=0.0)
    for tap in tl.static_range(TAPS):
        x = tl.load(first + tap * WIDTH, mask=inside, other=0.0).to(tl.float32)
        y += x * tl.load(w_ptr + tap * WIDTH + channel, mask=inside, other=0.0)
    mean = tl.sum(y, 0) / WIDTH
    y = tl.where(inside, y - mean, 0.0)
    y *= 1.0 / tl.sqrt(tl.sum(y * y, 0) / WIDTH + eps)
    y = y * tl.load(gain_ptr + channel, mask=inside, other=0.0) + tl.load(shift_ptr + channel, mask=inside, other=0.0)
    tl.store(out_ptr + at * WIDTH + channel, rounded(y, out_ptr), mask=inside)


@triton.jit(do_not_specialize=["rows", "length", "x_stream"])
def last_convolution(
    x_ptr, w_ptr, bias_ptr, out_ptr, rows, length, x_stream,
    TAPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The one-channel convolution of x [streams, TAPS - 1 + length, WIDTH] -> samples [streams, length] in [-1, 1].

    As int16 they are parts of 32767, rounded half to even: adding 1.5 * 2^23 leaves a float32 no fraction. What is no
    number is -32768.
    """
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    used = m < rows
    row = tl.minimum(m, rows - 1)
    channel = tl.arange(0, BLOCK)
    inside = channel < WIDTH
    first = x_ptr + ((row // length) * x_stream + (row % length) * WIDTH)[:, None] + channel[None, :]
    total = tl.zeros((BM, BLOCK), tl.float32)
    for tap in tl.static_range(TAPS):
        x = tl.load(first + tap * WIDTH, mask=inside[None, :], other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + tap * WIDTH + channel, mask=inside, other=0.0)[None, :]
    y = tl.sum(total, 1) + tl.load(bias_ptr)
    number = y == y
    y = tl.where(number, tl.minimum(tl.maximum(y, -1.0), 1.0), y)
    if out_ptr.dtype.element_ty == tl.int16:
        y = tl.where(number, (y * 32767.0 + 12582912.0) - 12582912.0, -32768.0)
    tl.store(out_ptr + m, y.to(out_ptr.dtype.element_ty), mask=used)


@triton.jit(do_not_specialize=["columns_stream"])
def move_columns(
    columns_ptr, work_ptr, row_ptr, plan_ptr, columns_stream,
    SAVE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What the convolutions remember, between the streams' memory and the beginnings or (SAVE) ends of their inputs.

    plan: int64 [layers, 5]: offset in a stream's memory, elements, and in ``work`` the first stream's input, elements
    from a stream to the next, elements from an input's beginning to what is saved of it.
    """
    stream, layer, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = tl.load(row_ptr + stream)
    plan = plan_ptr + layer * 5
    size = tl.load(plan + 1)
    columns = columns_ptr + row * columns_stream + tl.load(plan)
    work = work_ptr + tl.load(plan + 2) + stream * tl.load(plan + 3)
    for start in range(part * BLOCK, size, PARTS * BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < size
        if SAVE:
            tl.store(columns + at, tl.load(work + tl.load(plan + 4) + at, mask=inside), mask=inside)
        else:
            tl.store(work + at, tl.load(columns + at, mask=inside), mask=inside)
