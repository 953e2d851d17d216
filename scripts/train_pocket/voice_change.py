"""Changes a speaker's vocal tract and timbre in the teacher's speech.

Resampling scales all frequencies, formants and pitch alike, and the durations. The teacher compensates: it speaks with
another pitch and speed (``teacher_pitch``, ``teacher_speed``). An equalizer changes the average spectrum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from scripts.train_pocket.speakers import Speaker
from scripts.train_pocket.teacher_model import Speech

RATE = 24_000
BANDS = (100.0, 237.0, 562.0, 1334.0, 3162.0, 7500.0)
"""Frequencies in Hz of the equalizer's gains. Between them the gain is interpolated, outside it is constant."""
_STEP = 60
"""Lengths are rounded to a multiple of this many samples, for which Fourier transforms are fast."""


def teacher_pitch(speaker: Speaker) -> float:
    """Return the factor of the teacher's own pitch, before resampling."""
    return speaker.pitch / speaker.tract


def teacher_speed(speaker: Speaker, speed: float) -> float:
    """Return the speed of the teacher, before resampling, at which the result has ``speed``."""
    return speed / speaker.tract


def change_voice(speech: Speech, speaker: Speaker) -> Speech:
    """Return the speech with the formants and the equalizer of the speaker. Its durations may be fractions."""
    if speaker.tract == 1.0 and not speaker.equalizer:
        return speech
    count = len(speech.samples)
    target = max(_STEP, round(count / speaker.tract / _STEP) * _STEP)
    spectrum = np.fft.rfft(speech.samples)[: target // 2 + 1]
    spectrum = np.pad(spectrum, (0, target // 2 + 1 - len(spectrum)))
    samples = np.fft.irfft(spectrum * _gains(speaker, target), target) * (target / count)
    durations = speech.durations.astype(np.float64) * (target / count)
    return replace(speech, samples=samples.astype(np.float32), durations=durations)


def _gains(speaker: Speaker, count: int) -> npt.NDArray[np.float64]:
    if not speaker.equalizer:
        return np.ones(count // 2 + 1)
    hertz = np.fft.rfftfreq(count, 1 / RATE).clip(min=BANDS[0] / 2)
    decibels = np.interp(np.log(hertz), np.log(BANDS), speaker.equalizer)
    gains: npt.NDArray[np.float64] = 10 ** (decibels / 20)
    return gains
