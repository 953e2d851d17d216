"""Checks that the same codes are decoded to the same samples."""

from __future__ import annotations

import math

import numpy as np

from engine.protocol.request import SAMPLES_PER_FRAME, AudioChunk

SILENCE = np.zeros(0, np.int16)


class Likeness:
    """Compares the samples of a response with those of the same line heard alone, as long as their codes are equal.

    own: the line heard alone. A GPU rounds differently in different batches, so the level of the difference is measured
    instead of equality.
    """

    def __init__(self, own: AudioChunk) -> None:
        self._own, self._frames, self._most, self._parted = own, 0, math.nan, False

    def heard(self, chunk: AudioChunk) -> AudioChunk:
        """Compare the next chunk of the response. Return it without its samples, to save memory."""
        begin, self._frames = self._frames, self._frames + len(chunk.codes)
        self._parted = self._parted or not np.array_equal(self._own.codes[begin : self._frames], chunk.codes)
        if not self._parted:
            wanted = self._own.samples[begin * SAMPLES_PER_FRAME : self._frames * SAMPLES_PER_FRAME]
            self._most = float(np.fmax(self._most, _power(chunk.samples.astype(np.float32) - wanted)))
        return AudioChunk(SILENCE, chunk.codes)

    @property
    def decibels(self) -> float:
        """Level of the difference in the worst chunk, in dB below the line's mean; NaN if nothing was compared."""
        if not self._most:
            return math.inf
        return float(10 * np.log10(_power(self._own.samples.astype(np.float32)) / self._most))


def _power(samples: np.ndarray) -> float:
    return float(np.square(samples).mean())
