"""Turns the teacher's output into training utterances: loudness, trimming, and a phoneme label every 20 ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scripts.train_pocket.audio_shards import FRAME_SAMPLES, LABELS, Clip
from scripts.train_pocket.teacher_model import FRAME, Speech

RATE = 24_000
_LOUDNESS = 0.1
"""Target RMS of active speech: -20 dBFS."""
_ACTIVE_DB = 30.0
_PEAK = 0.95
_MIN_GAIN_RATIO = 0.4
"""Minimum ratio of the gain that the peak allows to the gain for the target loudness. Below, the peak is a click."""
_LEAD = 1200
"""Offset of a phoneme before its predicted frames: 50 ms, which fits vowels and sibilants best."""
_HOP = 240
_AUDIBLE_DB = -42.0
_DISAGREEMENT = 1440
"""If audible and predicted onset differ by more than 60 ms, the predicted one is used: the first phoneme is weak."""
_BEFORE = (960, 2880)
_AFTER = (2880, 4800)
_FADE = 120
_SECONDS = (0.35, 31.0)
_SYMBOLS_PER_SECOND = (4.0, 30.0)
_QUARTER = FRAME_SAMPLES // LABELS
_PAUSE = 5
"""Minimum quarters of silence of a pause (100 ms). Shorter ones are closures of stop consonants."""

Samples = npt.NDArray[np.float32]


class InvalidSpeech(ValueError):
    """The teacher's output cannot be used, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The speech in a recording. start, end: its first sample, and the one after its last."""

    start: int
    end: int


class Inventory:
    """The symbols of the teacher's vocabulary that are not phonemes: punctuation, stress and length marks."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._leading = {vocabulary[mark] for mark in "ˈˌ "}
        self._trailing = {vocabulary[mark] for mark in "ː"}
        self._silent = {vocabulary[mark] for mark in ';:,.!?—…"()“”'}

    def first_sound(self, symbols: Sequence[int]) -> int:
        """Return the index of the first symbol that is a phoneme; 0 if there is none."""
        return next((index for index, symbol in enumerate(symbols) if symbol not in self._silent | self._leading), 0)

    def sounds(self, symbols: Sequence[int]) -> list[int]:
        """Return a label per symbol: 0 for punctuation, the next symbol for stress marks, the last for length marks."""
        named = [0 if symbol in self._silent else symbol for symbol in symbols]
        for index in range(1, len(named)):
            if named[index] in self._trailing:
                named[index] = named[index - 1]
        for index in range(len(named) - 2, -1, -1):
            if named[index] in self._leading:
                named[index] = named[index + 1]
        return named


def finish(speech: Speech, symbols: Sequence[int], inventory: Inventory, random: np.random.Generator) -> Clip:
    """Normalize, trim and label ``speech`` of ``symbols``. Raises InvalidSpeech."""
    samples = _normalize(speech.samples)
    onset = round(float(speech.durations[: 1 + inventory.first_sound(symbols)].sum()) * FRAME) - _LEAD
    span = _find_speech(samples, max(0, onset))
    seconds = (span.end - span.start) / RATE
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        raise InvalidSpeech(f"duration {seconds:.2f} s")
    if not _SYMBOLS_PER_SECOND[0] <= len(symbols) / seconds <= _SYMBOLS_PER_SECOND[1]:
        raise InvalidSpeech(f"{len(symbols)} symbols in {seconds:.2f} s")
    start = max(0, span.start - int(random.integers(*_BEFORE)))
    end = min(len(samples), span.end + int(random.integers(*_AFTER)))
    cut = _fade(samples[start:end])
    padded = np.pad(cut, (0, -len(cut) % FRAME_SAMPLES))
    labels = _labels(padded, speech.durations, inventory.sounds(symbols), start, span)
    return Clip(np.round(padded * 32767).astype(np.int16), labels.reshape(-1, LABELS))


def _normalize(samples: Samples) -> Samples:
    if not np.isfinite(samples).all():
        raise InvalidSpeech("NaN or infinite samples")
    loudness = _active_rms(samples)
    if loudness < 1e-4:
        raise InvalidSpeech("silent")
    gain = _LOUDNESS / loudness
    peak = float(np.abs(samples).max())
    limited_gain = min(gain, _PEAK / peak)
    if limited_gain < _MIN_GAIN_RATIO * gain:
        raise InvalidSpeech(f"peak is {peak / loudness:.0f} times the loudness")
    return samples * np.float32(limited_gain)


def _active_rms(samples: Samples) -> float:
    power = _power(samples, 2 * _HOP)
    active = power >= power.max() * 10 ** (-_ACTIVE_DB / 10)
    return float(np.sqrt(power[active].mean()))


def _power(samples: Samples, window: int) -> npt.NDArray[np.float32]:
    complete = len(samples) // window * window
    power: npt.NDArray[np.float32] = np.square(samples[:complete].reshape(-1, window)).mean(1, dtype=np.float32)
    return power


def _find_speech(samples: Samples, predicted: int) -> _Span:
    audible = np.flatnonzero(_power(samples, _HOP) > _LOUDNESS**2 * 10 ** (_AUDIBLE_DB / 10)) * _HOP
    plausible = audible[audible >= predicted - _DISAGREEMENT]
    if not len(plausible):
        raise InvalidSpeech("silent")
    start = int(plausible[0]) if plausible[0] <= predicted + _DISAGREEMENT else predicted
    return _Span(start, int(plausible[-1]) + _HOP)


def _fade(samples: Samples) -> Samples:
    faded = samples.copy()
    ramp = np.linspace(0, 1, _FADE, dtype=np.float32)
    faded[:_FADE] *= ramp
    faded[-_FADE:] *= ramp[::-1]
    return faded


def _labels(
    padded: Samples,
    durations: npt.NDArray[np.int64] | npt.NDArray[np.float64],
    sounds: Sequence[int],
    start: int,
    span: _Span,
) -> npt.NDArray[np.int16]:
    """Return the symbol at the center of each quarter; 0 outside the speech and in pauses."""
    table = np.array([0, *sounds, 0], dtype=np.int16)
    centers = start + _QUARTER // 2 + _QUARTER * np.arange(len(padded) // _QUARTER)
    ends = np.cumsum(durations) * FRAME - _LEAD
    labels = table[np.minimum(np.searchsorted(ends, centers, side="right"), len(table) - 1)]
    labels[(centers < span.start) | (centers >= span.end)] = 0
    labels[_pauses(padded)] = 0
    return labels


def _pauses(padded: Samples) -> npt.NDArray[np.bool_]:
    quiet = _power(padded, _QUARTER) < _LOUDNESS**2 * 10 ** (_AUDIBLE_DB / 10)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2):
        quiet[begin:end] = end - begin >= _PAUSE
    return quiet
