"""Several speaker embeddings to one that lies between them.

Embeddings differ by direction more than by length, and a straight line between two directions passes inside the
sphere, where no voice is. So the blend's direction is the weighted mean on the sphere, which of two is spherical
linear interpolation and of more does not depend on their order (Buss and Fillmore, Spherical averages, 2001);
its length is the weighted mean of the lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 200
_SETTLED = 1e-12
_OPPOSITE = 1e-6


class BlendError(ValueError):
    """There is nothing between these embeddings."""


def blend(embeddings: Sequence[NDArray[np.float32]], weights: Sequence[float]) -> NDArray[np.float32]:
    """The embedding between ``embeddings`` (all of one width), by ``weights`` of which only the ratio counts.

    Raises BlendError: no weight above 0, an embedding without direction, or two that oppose each other.
    """
    taken = [(embedding, weight) for embedding, weight in zip(embeddings, weights, strict=True) if weight > 0]
    if not taken:
        raise BlendError("no weight is above 0")
    if len(taken) == 1:
        return taken[0][0]
    points = np.stack([embedding for embedding, _ in taken]).astype(np.float64)
    lengths = np.linalg.norm(points, axis=1)
    if not lengths.all():
        raise BlendError("an embedding is all zeros")
    shares = np.array([weight for _, weight in taken])
    shares = shares / shares.max()
    shares = shares / shares.sum()
    mean = _mean_direction(points / lengths[:, None], shares)
    between: NDArray[np.float32] = (mean * (shares @ lengths)).astype(np.float32)
    return between


def _mean_direction(directions: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    mean = shares @ directions
    length = np.linalg.norm(mean)
    if length < _OPPOSITE or (directions @ mean).min() < (_OPPOSITE - 1) * length:
        raise BlendError("two embeddings oppose each other")
    mean = mean / length
    for _ in range(_ROUNDS):
        step = shares @ _tangents(mean, directions)
        angle = np.linalg.norm(step)
        if angle < _SETTLED:
            break
        mean = np.cos(angle) * mean + np.sin(angle) * step / angle
        mean = mean / np.linalg.norm(mean)
    return mean


def _tangents(mean: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """From ``mean`` along the sphere to each direction: tangents whose length is the angle."""
    along = directions @ mean
    across = directions - along[:, None] * mean
    sines = np.linalg.norm(across, axis=1)
    angles = np.arctan2(sines, along)
    scale = np.divide(angles, sines, out=np.ones_like(sines), where=sines > 0)
    tangents: NDArray[np.float64] = across * scale[:, None]
    return tangents
