"""Recordings as float32 arrays, and measurements that need no model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

JUDGE_RATE = 16_000
"""Sample rate of the judges' input."""
_TOKENS_PER_SECOND = 8
_WINDOW_S = 0.010
_SPEECH_DB = 35.0
"""A window contains speech if its level is at most this many dB below the loudest window."""
_SILENCE_DB = -60.0
"""In dB of full scale. A recording without a louder window has no speech."""
_TRIM_DB = 45.0
_TRIM_MARGIN_S = 0.1

Samples = NDArray[np.float32]


def read(file: Path) -> tuple[Samples, int]:
    """Return mono samples and their rate. Raises soundfile.LibsndfileError when the file is not a recording."""
    samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return samples.mean(1), int(rate)


def loudness_db(samples: Samples) -> float:
    """Return the root mean square of the windows with speech, in dB of full scale; -inf without speech."""
    levels = _window_db(samples, 100)
    speech = levels[levels > max(_SILENCE_DB, float(levels.max(initial=-np.inf)) - _SPEECH_DB)]
    if not len(speech):
        return -np.inf
    return float(10 * np.log10(np.mean(10 ** (speech / 10))))


def onset_s(samples: Samples, rate: int) -> float:
    """Return the seconds before the first 10 ms with speech, or the whole duration without speech."""
    span = _speech_span(samples, rate, _SPEECH_DB)
    return len(samples) / rate if span is None else span[0] / rate


def speech_s(samples: Samples, rate: int) -> float:
    """Return the seconds from the first to the last 10 ms with speech."""
    span = _speech_span(samples, rate, _SPEECH_DB)
    return 0.0 if span is None else (span[1] - span[0]) / rate


def trim_silence(samples: Samples, rate: int) -> Samples:
    """Return the samples without the silence at both ends, except for 0.1 s of it."""
    span = _speech_span(samples, rate, _TRIM_DB)
    if span is None:
        return samples
    margin = round(_TRIM_MARGIN_S * rate)
    return samples[max(0, span[0] - margin) : span[1] + margin]


def max_tokens(samples: int) -> int:
    """Return the maximum tokens for a recording [n] at ``JUDGE_RATE``. A recognizer that produces more is looping."""
    return samples * _TOKENS_PER_SECOND // JUDGE_RATE + _TOKENS_PER_SECOND


def _speech_span(samples: Samples, rate: int, below_loudest: float) -> tuple[int, int] | None:
    """Return the first sample of the windows with speech, and the sample after the last one."""
    window = round(_WINDOW_S * rate)
    levels = _window_db(samples, window)
    if not len(levels) or levels.max() < _SILENCE_DB:
        return None
    speech = np.flatnonzero(levels > max(_SILENCE_DB, levels.max() - below_loudest))
    return int(speech[0]) * window, int(speech[-1] + 1) * window


def _window_db(samples: Samples, window: int) -> NDArray[np.float64]:
    """Return the level of each complete window, in dB of full scale."""
    windows = samples[: len(samples) // window * window].astype(np.float64).reshape(-1, window)
    level: NDArray[np.float64] = 10 * np.log10(np.maximum((windows**2).mean(1), 1e-12))
    return level
