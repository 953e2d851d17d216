"""Measures whether chunk boundaries are audible: spectra at boundaries, compared with spectra half a frame away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLES_PER_FRAME
from scripts.judge.sound import Samples

_WINDOW = 256
_BAND = 8
"""Bins per band: 750 Hz."""
_FLOOR = 1e-9
_DISTANCE = SAMPLES_PER_FRAME // 2


def seam_decibels(recordings: Iterable[tuple[Samples, Sequence[int]]]) -> float | None:
    """Return how much the mean spectrum at boundaries differs from that half a frame away; None without boundaries.

    The result is the mean over 750 Hz bands of the absolute difference in decibels. A click at every boundary raises
    all bands, a gap lowers them.

    recordings: samples at 24 kHz, and the sample indices at which later chunks begin.
    """
    differences = [
        _difference(samples, edge) for samples, edges in recordings for edge in edges if _fits(samples, edge)
    ]
    return float(np.abs(np.mean(differences, axis=0)).mean()) if differences else None


def _fits(samples: Samples, edge: int) -> bool:
    return edge - _DISTANCE - _WINDOW // 2 >= 0 and edge + _DISTANCE + _WINDOW // 2 <= len(samples)


def _difference(samples: Samples, edge: int) -> NDArray[np.float64]:
    reference = (_bands(samples, edge - _DISTANCE) + _bands(samples, edge + _DISTANCE)) / 2
    return _bands(samples, edge) - reference


def _bands(samples: Samples, center: int) -> NDArray[np.float64]:
    """Return the level in dB of each band in a short window around a sample."""
    window = samples[center - _WINDOW // 2 : center + _WINDOW // 2] * np.hanning(_WINDOW)
    power = np.abs(np.fft.rfft(window)[1:]) ** 2
    decibels: NDArray[np.float64] = 10 * np.log10(power.reshape(-1, _BAND).mean(1) + _FLOOR)
    return decibels
