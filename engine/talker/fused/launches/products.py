"""Split-K matrix products for few rows: splitting the columns keeps more programs busy than the outputs alone would.

The long side of the tensor-core tile holds outputs of the matrix, the short side holds rows. Each program writes its
partial sum to its own location. The launch that reads the result adds the partial sums in a fixed order
(``load_sum``), so the result is deterministic.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.codec_kernels import swiglu


@triton.jit
def load_sum(at, stride, PARTS: tl.constexpr, inside=None):
    """Add PARTS values: the one at ``at`` and those at multiples of ``stride`` after it. Zero where not ``inside``."""
    total = tl.load(at) if inside is None else tl.load(at, inside, 0.0)
    for part in tl.static_range(1, PARTS):
        next_part = at + part * stride
        total += tl.load(next_part) if inside is None else tl.load(next_part, inside, 0.0)
    return total


@triton.jit
def _column_product(
    x_ptr, w_ptr, n, m, rows, columns, begin, count,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Multiply rows n of w by rows m of x over ``count`` columns from ``begin``: float32 [BN, BM]."""
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
def split_product(
    x_ptr, w_ptr, out_ptr, rows, outputs, columns, part_columns,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Compute part program_id(2) of x W^T, with x [rows, columns] and w [outputs, columns], over ``part_columns``.

    out: float32 [parts, rows, outputs].
    """
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    part = tl.program_id(2)
    begin = part * part_columns
    total = _column_product(x_ptr, w_ptr, n, m, rows, columns, begin, part_columns, BN, BM, BK, STAGES)
    out = out_ptr + part * rows * outputs
    tl.store(out + m[None, :] * outputs + n[:, None], total, m[None, :] < rows)


@triton.jit(do_not_specialize=["rows"])
def gated_product(
    x_ptr, w_ptr, out_ptr, rows, outputs, columns,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Compute silu(gate) * up of x [rows, columns] into out [rows, outputs].

    w [2 outputs, columns] has the gate rows, then the up rows. A tile alternates eight gates and their eight ups,
    because tensor cores leave an output and the eighth output after it in the same thread.
    """
    HALF: tl.constexpr = BN // 2
    j = tl.arange(0, BN)
    first = tl.program_id(0) * HALF
    n = first + j // 16 * 8 + j % 8 + (j // 8 % 2) * outputs
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    total = _column_product(x_ptr, w_ptr, n, m, rows, columns, 0, columns, BN, BM, BK, STAGES)
    pairs = tl.permute(tl.reshape(total, (BN // 16, 2, 8, BM)), (0, 2, 3, 1))
    gate, up = tl.split(pairs)
    y = tl.reshape(swiglu(gate, up), (HALF, BM))
    at = out_ptr + m[None, :] * outputs + first + tl.arange(0, HALF)[:, None]
    tl.store(at, y.to(out_ptr.dtype.element_ty), m[None, :] < rows)
