"""Speech at another sample rate, in a stream."""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray


class Resampler:
    """A stream of soxr's, which gives what it would give for the whole."""

    def __init__(self, rate: int, target: int) -> None:
        self._stream = soxr.ResampleStream(rate, target, 1, dtype="float32", quality="HQ")

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """What these samples complete."""
        return self._resampled(samples, last=False)

    def flush(self) -> NDArray[np.float32]:
        """The rest, after the last sample."""
        return self._resampled(np.zeros(0, np.float32), last=True)

    def _resampled(self, samples: NDArray[np.float32], last: bool) -> NDArray[np.float32]:
        made: NDArray[np.float32] = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        return made
