"""Whether one can hear where chunks meet: spectra there, beside spectra half a frame away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLES_PER_FRAME
from scripts.judge.sound import Samples

_WINDOW = 256
_BAND = 8
"""Bins of a band: 750 Hz."""
_FLOOR = 1e-9
_AWAY = SAMPLES_PER_FRAME // 2


def seam_decibels(spoken: Iterable[tuple[Samples, Sequence[int]]]) -> float | None:
    """How far the mean spectrum at the edges is from that half a frame before and after them; None without edges.

    spoken: samples at 24 kHz, and the samples' indices at which a chunk begins. The mean over 750 Hz bands of the
    absolute difference in decibels; a click at every edge would lift all bands, a gap would lower them.
    """
    differences = [_difference(samples, edge) for samples, edges in spoken for edge in edges if _fits(samples, edge)]
    return float(np.abs(np.mean(differences, axis=0)).mean()) if differences else None


def _fits(samples: Samples, edge: int) -> bool:
    return edge - _AWAY - _WINDOW // 2 >= 0 and edge + _AWAY + _WINDOW // 2 <= len(samples)


def _difference(samples: Samples, edge: int) -> NDArray[np.float64]:
    away = (_bands(samples, edge - _AWAY) + _bands(samples, edge + _AWAY)) / 2
    return _bands(samples, edge) - away


def _bands(samples: Samples, centre: int) -> NDArray[np.float64]:
    """Decibels in each band of a short window around a sample."""
    window = samples[centre - _WINDOW // 2 : centre + _WINDOW // 2] * np.hanning(_WINDOW)
    power = np.abs(np.fft.rfft(window)[1:]) ** 2
    decibels: NDArray[np.float64] = 10 * np.log10(power.reshape(-1, _BAND).mean(1) + _FLOOR)
    return decibels
