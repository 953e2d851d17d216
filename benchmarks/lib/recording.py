"""Synthetic reference recordings: some seconds of a voice-like sound, for clones whose quality does not matter."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE

TRANSCRIPT = "The quick brown fox jumps over the lazy dog, and nobody who was there is surprised."
_SYLLABLES_PER_SECOND = 4.0
_HARMONICS = 12


def synthetic_recording(seconds: float = 6.0, pitch: float = 140.0) -> NDArray[np.float32]:
    """Return the samples at ``SAMPLE_RATE``. pitch: mean pitch in Hz."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    phase = 2 * np.pi * np.cumsum(pitch * (1 + 0.15 * np.sin(2 * np.pi * 0.7 * time))) / SAMPLE_RATE
    voiced = sum(np.sin(number * phase) / number for number in range(1, _HARMONICS + 1))
    loudness = 0.15 + 0.85 * np.sin(np.pi * _SYLLABLES_PER_SECOND * time) ** 2
    noise = np.random.default_rng(1).normal(0, 0.02, len(time))
    return np.clip(0.3 * voiced * loudness + noise, -1, 1).astype(np.float32)


def write_recording(file: Path, seconds: float = 6.0, pitch: float = 140.0) -> None:
    """Write a synthetic recording to a WAV file."""
    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SAMPLE_RATE)
        out.writeframes((32767 * synthetic_recording(seconds, pitch)).astype("<i2").tobytes())
