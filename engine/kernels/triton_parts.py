"""What Code2Wav's launches have in common with each other, and with the code predictor's."""

from __future__ import annotations

import triton
import triton.language as tl

_MOST: tl.constexpr = tl.constexpr(65504.0)
"""The largest number of float16."""


@triton.jit
def rounded(y, place):
    """y in the type that ``place`` points to. What is no number remains none.

    In float16 what is too large is the largest number there is: of an infinity later layers would make what is no
    number, and it would stay in the stream's memory.
    """
    if place.dtype.element_ty == tl.float16:
        y = tl.maximum(y.to(tl.float32), -_MOST, propagate_nan=tl.PropagateNan.ALL)
        y = tl.minimum(y, _MOST, propagate_nan=tl.PropagateNan.ALL)
    return y.to(place.dtype.element_ty)


@triton.jit
def swiglu(gate, up):
    """silu(gate) * up, in float32."""
    return gate / (1.0 + tl.exp(-gate)) * up


@triton.jit
def swiglu_rows(x_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Of x [rows, 2 WIDTH], gate then up: out [rows, WIDTH]. Row program_id(0), columns of program_id(1)."""
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    gate = tl.load(x_ptr + row * 2 * WIDTH + at, inside, 0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * WIDTH + WIDTH + at, inside, 0.0).to(tl.float32)
    tl.store(out_ptr + row * WIDTH + at, rounded(swiglu(gate, up), out_ptr), inside)
