"""Products of a few rows, whose columns are shared out to more programs than the outputs alone would keep at work.

The tensor cores' long side has outputs of the matrix, the short one the rows. Each program's sum goes to a place of its
own; the launch that reads the result adds them up in their order (``summed``), so no sum depends on who was first.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.codec_kernels import swiglu


@triton.jit
def summed(at, apart, PARTS: tl.constexpr, inside=None):
    """What stands at ``at``, and PARTS - 1 times ``apart`` further on, together; zero outside."""
    total = tl.load(at) if inside is None else tl.load(at, inside, 0.0)
    for part in tl.static_range(1, PARTS):
        further = at + part * apart
        total += tl.load(further) if inside is None else tl.load(further, inside, 0.0)
    return total


@triton.jit
def _columns(
    x_ptr, w_ptr, n, m, rows, columns, begin, count,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows n of w times rows m of x over ``count`` columns from ``begin``: float32 [BN, BM]."""
    k = begin + tl.arange(0, BK)
    inside = m[:, None] < rows
    xs = x_ptr + m[:, None] * columns + k[None, :]
    ws = w_ptr + n[:, None] * columns + k[None, :]
    total = tl.zeros((BN, BM), tl.float32)
    for at in tl.range(0, count, BK, num_stages=STAGES):
        x = tl.load(xs + at, inside, 0.0)
        w = tl.load(ws + at)
        total = tl.dot(w, x.T, total, input_precision="ieee")
    return total


@triton.jit(do_not_specialize=["rows"])
def part_product(
    x_ptr, w_ptr, out_ptr, rows, outputs, columns, share,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Part program_id(2) of x [rows, columns] W^T, w being [outputs, columns]: of ``share`` columns.

    out float32 [parts, rows, outputs].
    """
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    part = tl.program_id(2)
    total = _columns(x_ptr, w_ptr, n, m, rows, columns, part * share, share, BN, BM, BK, STAGES)
    out = out_ptr + part * rows * outputs
    tl.store(out + m[None, :] * outputs + n[:, None], total, m[None, :] < rows)


@triton.jit(do_not_specialize=["rows"])
def gated_product(
    x_ptr, w_ptr, out_ptr, rows, outputs, columns,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """silu(gate) * up of x [rows, columns], of w [2 outputs, columns], gates and then ups: out [rows, outputs].

    A tile has eight gates, their eight ups, eight gates: tensor cores leave an output and the eighth after it in one
    thread.
    """
    HALF: tl.constexpr = BN // 2
    j = tl.arange(0, BN)
    first = tl.program_id(0) * HALF
    n = first + j // 16 * 8 + j % 8 + (j // 8 % 2) * outputs
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    total = _columns(x_ptr, w_ptr, n, m, rows, columns, 0, columns, BN, BM, BK, STAGES)
    pairs = tl.permute(tl.reshape(total, (BN // 16, 2, 8, BM)), (0, 2, 3, 1))
    gate, up = tl.split(pairs)
    y = tl.reshape(swiglu(gate, up), (HALF, BM))
    at = out_ptr + m[None, :] * outputs + first + tl.arange(0, HALF)[:, None]
    tl.store(at, y.to(out_ptr.dtype.element_ty), m[None, :] < rows)
