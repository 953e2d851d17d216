"""How Code2Wav's launches round what they write."""

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
