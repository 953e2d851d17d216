"""Operations on arrays in functions that numba compiles."""

from __future__ import annotations

from numba import njit

from engine.kernels.compiled import CACHE


@njit(nogil=True, cache=CACHE)
def copy(source, target):
    """Copy a vector to the beginning of another, which must be at least as long: the length is not checked.

    Faster to compile than an assignment to a slice, which formats an error message.
    """
    for index in range(len(source)):
        target[index] = source[index]
