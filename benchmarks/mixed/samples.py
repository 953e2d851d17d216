"""Checks that the same codes are decoded to the same samples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLES_PER_FRAME, AudioChunk

NO_SAMPLES = np.zeros(0, np.int16)


class SampleComparison:
    """Compares the samples of a response with those of the same line alone, as long as their codes are equal.

    expected: the response without load. A GPU rounds differently in different batches, so the level of the difference
    is measured instead of equality.
    """

    def __init__(self, expected: AudioChunk) -> None:
        self._expected, self._frames, self._max_error_power, self._diverged = expected, 0, math.nan, False
        self.worst_frames = range(0)
        """The frames of the chunk with the largest difference."""

    def add(self, chunk: AudioChunk) -> AudioChunk:
        """Compare the next chunk of the response. Return it without its samples, to save memory."""
        begin, self._frames = self._frames, self._frames + len(chunk.codes)
        self._diverged = self._diverged or not np.array_equal(self._expected.codes[begin : self._frames], chunk.codes)
        if not self._diverged:
            expected_samples = self._expected.samples[begin * SAMPLES_PER_FRAME : self._frames * SAMPLES_PER_FRAME]
            error = chunk.samples.astype(np.float32) - expected_samples
            power = _power(error)
            if not power <= self._max_error_power:  # NaN before the first comparison
                self._max_error_power, self.worst_frames = power, range(begin, self._frames)
        return AudioChunk(NO_SAMPLES, chunk.codes)

    @property
    def snr_db(self) -> float:
        """Level of the difference in the worst chunk, in dB below the line's mean; NaN if nothing was compared."""
        if not self._max_error_power:
            return math.inf
        return float(10 * np.log10(_power(self._expected.samples.astype(np.float32)) / self._max_error_power))


def _power(samples: NDArray[np.float32]) -> float:
    return float(np.square(samples).mean())
