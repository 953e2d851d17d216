"""Conversion between float32 samples and 16-bit PCM. Imports no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FULL_SCALE = 32767
"""The int16 value of a sample of 1.0."""
AUDIBLE = FULL_SCALE // 1000
"""-60 dBFS: a sample with a larger magnitude is audible."""
NAN_SAMPLE = -32768
"""The int16 value that marks a NaN sample. No other sample maps to it."""


def to_int16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Convert float32 samples to int16. Clips them to [-1, 1] and maps NaN to ``NAN_SAMPLE``."""
    scaled = np.clip(samples, -1.0, 1.0)
    scaled *= FULL_SCALE
    np.rint(scaled, out=scaled)
    scaled[np.isnan(scaled)] = NAN_SAMPLE
    pcm: NDArray[np.int16] = scaled.astype(np.int16)
    return pcm


def audible(samples: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Return which of the samples are audible."""
    return (samples > AUDIBLE) | (samples < -AUDIBLE)


def has_audible(samples: NDArray[np.int16]) -> bool:
    """Return whether any sample is audible."""
    return bool(audible(samples).any())


def to_float32(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """Convert int16 samples to float32 in [-1, 1]. The inverse of ``to_int16``, except for clipping and NaN."""
    return samples.astype(np.float32) / np.float32(FULL_SCALE)
