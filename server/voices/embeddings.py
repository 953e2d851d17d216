"""Speaker embeddings: validation, and blending by spherical interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_WIDTH = 16_384
MAX_NORM = 10_000.0
"""Maximum L2 norm. Speaker embeddings have a norm of about 4 (pocket). float16 activations overflow above 65,504, and
the layers add to their input. A norm above 1.8e19 overflows float32 when it is squared. A norm of 0 is harmless."""


def embedding_fault(embedding: NDArray[np.float32]) -> str | None:
    """Return why ``embedding`` (float32 [width]) is invalid, such as "a value is not finite", or None if valid."""
    with np.errstate(over="ignore"):
        square = float(embedding @ embedding)
    if square <= MAX_NORM**2:  # false for NaN and infinity, too
        return None
    if not np.isfinite(embedding).all():
        return "a value is not finite"
    norm = float(np.linalg.norm(embedding.astype(np.float64)))
    return f"its L2 norm must be at most {MAX_NORM:g}, got {norm:.3g}; real voices have about 1 to 100"


_MAX_ITERATIONS = 200
_CONVERGED_ANGLE = 1e-12
_OPPOSITE = 1e-6


class BlendError(ValueError):
    """The embeddings cannot be blended."""


def blend(embeddings: Sequence[NDArray[np.float32]], weights: Sequence[float]) -> NDArray[np.float32]:
    """Return the weighted spherical mean of ``embeddings``, scaled to the weighted mean of their norms.

    All embeddings must have the same width. Only the ratios of ``weights`` matter; embeddings of weight 0 are ignored.
    Raises BlendError when no weight is above 0, an embedding is all zeros, or two embeddings point in opposite
    directions.
    """
    weighted = [(embedding, weight) for embedding, weight in zip(embeddings, weights, strict=True) if weight > 0]
    if not weighted:
        raise BlendError("at least one weight must be above 0")
    if len(weighted) == 1:
        return weighted[0][0]
    points = np.stack([embedding for embedding, _ in weighted]).astype(np.float64)
    lengths = np.linalg.norm(points, axis=1)
    if not lengths.all():
        raise BlendError("an embedding is all zeros")
    shares = np.array([weight for _, weight in weighted])
    shares = shares / shares.max()
    shares = shares / shares.sum()
    mean = _mean_direction(points / lengths[:, None], shares)
    blended: NDArray[np.float32] = (mean * (shares @ lengths)).astype(np.float32)
    return blended


def _mean_direction(directions: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    mean = shares @ directions
    length = np.linalg.norm(mean)
    if length < _OPPOSITE or (directions @ mean).min() < (_OPPOSITE - 1) * length:
        raise BlendError("two embeddings point in opposite directions")
    mean = mean / length
    for _ in range(_MAX_ITERATIONS):
        step = shares @ _tangents(mean, directions)
        angle = np.linalg.norm(step)
        if angle < _CONVERGED_ANGLE:
            break
        mean = np.cos(angle) * mean + np.sin(angle) * step / angle
        mean = mean / np.linalg.norm(mean)
    return mean


def _tangents(mean: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the tangent vectors at ``mean`` that point to each direction; their lengths are the angles (log map)."""
    along = directions @ mean
    across = directions - along[:, None] * mean
    sines = np.linalg.norm(across, axis=1)
    angles = np.arctan2(sines, along)
    scale = np.divide(angles, sines, out=np.ones_like(sines), where=sines > 0)
    tangents: NDArray[np.float64] = across * scale[:, None]
    return tangents


def parse_weighted(text: str) -> tuple[str, float]:
    """Parse ``NAME:WEIGHT``, or ``NAME`` with a weight of 1. Raises ValueError for a negative or infinite weight."""
    name, _, weight = text.rpartition(":")
    try:
        share = float(weight)
    except ValueError:
        return text, 1.0
    if not name or not 0 <= share < float("inf"):
        raise ValueError(f"a voice must be NAME or NAME:WEIGHT with a weight of at least 0, got '{text}'")
    return name, share
