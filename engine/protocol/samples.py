"""Conversion between float32 samples and 16-bit PCM. Imports no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FULL_SCALE = 32767
"""What a sample of 1.0 is in 16 bits."""
NO_NUMBER = -32768
"""What stands in 16 bits for a sample that is no number, and for nothing else."""


def to_int16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Samples in [-1, 1] in 16 bits; louder ones are clipped, and one that is no number is ``NO_NUMBER``."""
    scaled = np.clip(samples, -1.0, 1.0)
    scaled *= FULL_SCALE
    np.rint(scaled, out=scaled)
    scaled[np.isnan(scaled)] = NO_NUMBER
    pcm: NDArray[np.int16] = scaled.astype(np.int16)
    return pcm


def to_float32(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """The inverse of ``to_int16``."""
    return samples.astype(np.float32) / np.float32(FULL_SCALE)
