"""Backgrounds of reference recordings: white noise, other voices, music."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from scripts.judge.sound import Samples

Background = Literal["white", "babble", "music"]
BACKGROUNDS: tuple[Background, ...] = get_args(Background)
SNR_DB = 10.0
_SEMITONES = (0, 4, 7, 12, 9, 5, 2, 7)
"""A tune, in semitones above its root of 220 Hz."""
_NOTE_S = 0.4
_HARMONICS = 6


def add_background(samples: Samples, rate: int, kind: Background, voices: Sequence[Samples]) -> Samples:
    """Return the recording with a background ``SNR_DB`` below it, on average. voices: for babble, at the same rate."""
    background = {"white": _white, "babble": lambda count, _: _babble(count, voices), "music": _music}[kind](
        len(samples), rate
    )
    gain = np.sqrt(np.mean(samples**2) / np.mean(background**2) * 10 ** (-SNR_DB / 10))
    mixed = samples + gain * background
    return np.asarray(mixed / max(1.0, float(np.abs(mixed).max())), np.float32)


def _white(count: int, _rate: int) -> Samples:
    return np.random.default_rng(0).standard_normal(count).astype(np.float32)


def _babble(count: int, voices: Sequence[Samples]) -> Samples:
    """Return the sum of the voices, each repeated, at equal power."""
    equal = [np.resize(voice / np.sqrt(np.mean(voice**2)), count) for voice in voices]
    return np.asarray(np.sum(equal, axis=0), np.float32)


def _music(count: int, rate: int) -> Samples:
    """Return a plucked tune over a held chord."""
    seconds = np.arange(count) / rate
    tune = np.zeros(count)
    for note in range(int(seconds[-1] / _NOTE_S) + 1):
        since = seconds - note * _NOTE_S
        hertz = 220 * 2 ** (_SEMITONES[note % len(_SEMITONES)] / 12)
        tune += np.where(since >= 0, np.exp(-since.clip(0) / 0.3), 0) * _tone(hertz, since)
    chord = sum(_tone(110 * 2 ** (step / 12), seconds) for step in (0, 4, 7))
    return np.asarray(tune + 0.4 * chord, np.float32)


def _tone(hertz: float, seconds: np.ndarray) -> np.ndarray:
    waves = [np.sin(2 * np.pi * hertz * n * seconds) / n for n in range(1, _HARMONICS + 1)]
    return np.asarray(np.sum(waves, axis=0))
