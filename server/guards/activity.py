"""Finds the parts of a stream of samples that contain speech, by their level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from engine.protocol.samples import FULL_SCALE

_WINDOW = SAMPLE_RATE // 50
"""Samples of a window: 20 ms."""
_WINDOW_SECONDS = _WINDOW / SAMPLE_RATE
_SPEECH_DB = -50.0
"""Root mean square of a window with speech, in dB of full scale. The loudest windows of whispered speech reach -40."""
_SPEECH_ENERGY = _WINDOW * (FULL_SCALE * 10 ** (_SPEECH_DB / 20)) ** 2


class SpeechActivity:
    """Where speech was heard in the samples so far, in seconds from their start.

    Attributes:
        seconds: duration of the complete windows so far.
        first: start of the first window with speech; None without speech.
        last: end of the last window with speech; 0 without speech.
        longest_gap: longest silence so far: before the first speech, between two parts of it, or since the last one.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.first: float | None = None
        self.last = 0.0
        self.longest_gap = 0.0
        self._windows = 0
        self._rest = np.zeros(0, np.int16)

    @property
    def speech_seconds(self) -> float:
        """Seconds from the first speech to the end of the last speech; 0 without speech."""
        return 0.0 if self.first is None else self.last - self.first

    def add(self, samples: NDArray[np.int16]) -> None:
        """Add int16 samples at 24 kHz, of any number."""
        samples = np.concatenate([self._rest, samples])
        count = len(samples) // _WINDOW
        self._rest = samples[count * _WINDOW :]
        windows = samples[: count * _WINDOW].reshape(count, _WINDOW).astype(np.float32)
        spoken = np.flatnonzero(np.einsum("ij,ij->i", windows, windows) > _SPEECH_ENERGY) + self._windows
        self._windows += count
        self.seconds = self._windows * _WINDOW_SECONDS
        if len(spoken):
            start = int(spoken[0]) * _WINDOW_SECONDS
            self.first = start if self.first is None else self.first
            inner = (int(np.diff(spoken).max()) - 1) * _WINDOW_SECONDS if len(spoken) > 1 else 0.0
            self.longest_gap = max(self.longest_gap, start - self.last, inner)
            self.last = (int(spoken[-1]) + 1) * _WINDOW_SECONDS
        self.longest_gap = max(self.longest_gap, self.seconds - self.last)
