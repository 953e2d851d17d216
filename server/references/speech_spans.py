"""Finds the speech in a recording by its level: where it starts and ends, and its pauses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE

_WINDOW = SAMPLE_RATE // 100
_BELOW_LOUD_DB = 30.0
"""A window contains speech if its level is at most this far below that of the loud ones (95th percentile)."""
_ABOVE_NOISE_DB = 10.0
"""In a noisy recording, the level must also be this far above the noise (5th percentile), ..."""
_LEAST_CONTRAST_DB = 12.0
"""... unless noise and speech cannot be told apart: this far below the loud windows is always speech."""
_SHORTEST_PAUSE = SAMPLE_RATE * 15 // 100
"""Shorter gaps are closures of consonants, not pauses."""
_SHORTEST_SPEECH = SAMPLE_RATE * 6 // 100
"""A shorter sound between two pauses is a click, such as that of the button that stops the recording."""
_QUIETEST = 1e-12


class Span(NamedTuple):
    """Samples ``start`` to ``stop`` of a recording at 24 kHz."""

    start: int
    stop: int

    @property
    def samples(self) -> int:
        """Number of samples."""
        return self.stop - self.start


def speech_spans(samples: NDArray[np.float32]) -> list[Span]:
    """Return the stretches of speech, in order; between them are pauses of at least 0.15 s.

    A recording without any, such as one shorter than a window of 10 ms, is one span.

    Args:
        samples: mono samples at 24 kHz.
    """
    levels = _levels(samples)
    if not len(levels):
        return [Span(0, len(samples))]
    loud, noise = np.percentile(levels, [95, 5])
    threshold = max(loud - _BELOW_LOUD_DB, min(noise + _ABOVE_NOISE_DB, loud - _LEAST_CONTRAST_DB))
    edges = np.flatnonzero(np.diff(levels >= threshold, prepend=False, append=False)) * _WINDOW
    spans: list[Span] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        if spans and start - spans[-1].stop < _SHORTEST_PAUSE:
            spans[-1] = Span(spans[-1].start, stop)
        else:
            spans.append(Span(start, stop))
    spans = [span for span in spans if span.samples >= _SHORTEST_SPEECH] or [Span(0, len(samples))]
    if len(samples) - spans[-1].stop < _WINDOW:
        spans[-1] = Span(spans[-1].start, len(samples))
    return spans


def _levels(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the level of each complete window of 10 ms, in dB of full scale."""
    windows = samples[: len(samples) // _WINDOW * _WINDOW].reshape(-1, _WINDOW)
    power = np.square(windows, dtype=np.float64).mean(1)
    levels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, _QUIETEST))
    return levels
