"""Which speaker embeddings the models can speak with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_WIDTH = 16_384
MAX_NORM = 10_000.0
"""Speakers' embeddings have an L2 norm of about 4 (pocket). float16 activations end at 65,504, and the layers add to
what they are given; a norm beyond 1.8e19 overflows float32 when it is squared. A norm of 0 is harmless."""


def embedding_fault(embedding: NDArray[np.float32]) -> str | None:
    """Return what makes ``embedding`` (float32 [width]) unusable, such as "a value is not finite", or None."""
    with np.errstate(over="ignore"):
        square = float(embedding @ embedding)
    if square <= MAX_NORM**2:  # False also where it is NaN or infinite
        return None
    if not np.isfinite(embedding).all():
        return "a value is not finite"
    norm = float(np.linalg.norm(embedding.astype(np.float64)))
    return f"its L2 norm is {norm:.3g}; at most {MAX_NORM:g} is accepted, and real voices have about 1 to 100"
