"""Log-mel frames of speech: the input of the aligner's network. Training computes the same values in torch."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

RATE = 24_000
"""Sample rate in Hz of the speech, which is the engine's."""
HOP = 240
"""Samples per frame: 10 ms at 24 kHz."""
WINDOW = 600
"""Samples of the Hann window: 25 ms."""
FFT = 1024
MELS = 64
LOWEST, HIGHEST = 60.0, 11_000.0
"""Range of the mel filters in Hz."""
FLOOR = 1e-6
"""Added to the mel power, so that digital silence has a finite logarithm."""
OFFSET, SCALE = 4.0, 0.25
"""The network's input is ``(log(power + FLOOR) + OFFSET) * SCALE``, which is about -2 to 2 for speech."""


def log_mel(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """Return frames float32 [n, MELS] of samples int16 at 24 kHz. Frame i is centered at sample ``(i + 0.5) * HOP``."""
    frames = -(-len(samples) // HOP)
    lead = (WINDOW - HOP) // 2
    padded = np.zeros((frames - 1) * HOP + WINDOW if frames else 0, np.float32)
    padded[lead : lead + len(samples)] = samples[: len(padded) - lead]
    padded /= 32768.0
    if not frames:
        return np.zeros((0, MELS), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * hann()
    spectrum = np.fft.rfft(windows, FFT)
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    mel = power.astype(np.float32) @ mel_filters()
    scaled: NDArray[np.float32] = (np.log(mel + np.float32(FLOOR)) + np.float32(OFFSET)) * np.float32(SCALE)
    return scaled


@cache
def hann() -> NDArray[np.float32]:
    """Return the analysis window, float32 [WINDOW]."""
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32)


@cache
def mel_filters() -> NDArray[np.float32]:
    """Return triangular filters, evenly spaced on the mel scale, float32 [FFT // 2 + 1, MELS], of unit area each."""
    edges = _hertz(np.linspace(_mel(LOWEST), _mel(HIGHEST), MELS + 2))
    bins = np.arange(FFT // 2 + 1)[:, None] * (RATE / FFT)
    low, center, high = edges[:-2], edges[1:-1], edges[2:]
    filters = np.maximum(0.0, np.minimum((bins - low) / (center - low), (high - bins) / (high - center)))
    normalized: NDArray[np.float32] = (filters / filters.sum(0)).astype(np.float32)
    return normalized


def _mel(hertz: float) -> float:
    return float(2595.0 * np.log10(1.0 + hertz / 700.0))


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    hertz: NDArray[np.float64] = 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    return hertz
