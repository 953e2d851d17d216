"""Resamples reference recordings to 24 kHz. Imports no torch."""

from __future__ import annotations

from math import ceil

import numpy as np
import soxr
from numpy.typing import NDArray


def resample(samples: NDArray[np.float32], rate: int, target: int) -> NDArray[np.float32]:
    """Resample ``n`` mono samples to ceil(n * target / rate) samples, as the reference implementation does."""
    if rate == target:
        return np.array(samples, np.float32)
    length = ceil(len(samples) * target / rate)
    resampled = soxr.resample(samples, rate, target, quality="HQ")[:length]
    return np.pad(resampled, (0, length - len(resampled))).astype(np.float32)
