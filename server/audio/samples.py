"""Float samples to 16-bit ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def to_int16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Samples in [-1, 1] as little-endian signed 16-bit; louder ones are clipped."""
    pcm: NDArray[np.int16] = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2")
    return pcm


def to_pcm16(samples: NDArray[np.float32]) -> bytes:
    """The bytes of ``to_int16``."""
    return to_int16(samples).tobytes()
