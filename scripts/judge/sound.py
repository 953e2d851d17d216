"""Recordings as float32 arrays, and what can be measured of them without a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

JUDGE_RATE = 16_000
"""Samples a second of what every judge hears."""
_TOKENS_A_SECOND = 8
_WINDOW_S = 0.010
_SPEECH_DB = 35.0
"""Speech is what is at most this far below the loudest window."""
_SILENCE_DB = -60.0
"""Full scale; a recording with no louder window has no speech."""
_TRIM_DB = 45.0
_TRIM_MARGIN_S = 0.1

Samples = NDArray[np.float32]


def read(file: Path) -> tuple[Samples, int]:
    """Mono samples and their rate. Raises soundfile.LibsndfileError where it is no recording."""
    samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return samples.mean(1), int(rate)


def loudness_db(samples: Samples) -> float:
    """Root mean square of the windows that are speech, in dB of full scale; -inf without speech."""
    loud = _window_db(samples, 100)
    speech = loud[loud > max(_SILENCE_DB, float(loud.max(initial=-np.inf)) - _SPEECH_DB)]
    if not len(speech):
        return -np.inf
    return float(10 * np.log10(np.mean(10 ** (speech / 10))))


def onset_s(samples: Samples, rate: int) -> float:
    """Seconds before the first 10 ms that are speech; the whole duration when there is none."""
    span = _speech_span(samples, rate, _SPEECH_DB)
    return len(samples) / rate if span is None else span[0] / rate


def speech_s(samples: Samples, rate: int) -> float:
    """Seconds from the first to the last 10 ms that are speech."""
    span = _speech_span(samples, rate, _SPEECH_DB)
    return 0.0 if span is None else (span[1] - span[0]) / rate


def trimmed(samples: Samples, rate: int) -> Samples:
    """Without the silence at both ends, a tenth of a second of it excepted."""
    span = _speech_span(samples, rate, _TRIM_DB)
    if span is None:
        return samples
    margin = round(_TRIM_MARGIN_S * rate)
    return samples[max(0, span[0] - margin) : span[1] + margin]


def most_tokens(samples: int) -> int:
    """Of a recording [n] at ``JUDGE_RATE``: a recogniser that says more is looping, and is stopped."""
    return samples * _TOKENS_A_SECOND // JUDGE_RATE + _TOKENS_A_SECOND


def _speech_span(samples: Samples, rate: int, below_loudest: float) -> tuple[int, int] | None:
    """First and last-but-one sample of the windows that are speech."""
    window = round(_WINDOW_S * rate)
    loud = _window_db(samples, window)
    if not len(loud) or loud.max() < _SILENCE_DB:
        return None
    speech = np.flatnonzero(loud > max(_SILENCE_DB, loud.max() - below_loudest))
    return int(speech[0]) * window, int(speech[-1] + 1) * window


def _window_db(samples: Samples, window: int) -> NDArray[np.float64]:
    """The level of each whole window, in dB of full scale."""
    whole = samples[: len(samples) // window * window].astype(np.float64).reshape(-1, window)
    level: NDArray[np.float64] = 10 * np.log10(np.maximum((whole**2).mean(1), 1e-12))
    return level
