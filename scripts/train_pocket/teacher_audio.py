"""From the teacher's raw speech to a training utterance: one loudness, short silences, a phoneme every 20 ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scripts.train_pocket.audio_shards import FRAME_SAMPLES, LABELS, Clip
from scripts.train_pocket.teacher_model import FRAME, Speech

RATE = 24_000
_LOUDNESS = 0.1
"""RMS of active speech: -20 dBFS."""
_ACTIVE_DB = 30.0
_PEAK = 0.95
_MOST_REDUCED = 0.4
"""A peak that takes more than this factor of the loudness away is a click, not speech."""
_LEAD = 1200
"""A symbol sounds this much before its predicted frames: 50 ms, where vowels and sibilants fit their symbols best."""
_HOP = 240
_AUDIBLE_DB = -42.0
_DISAGREEMENT = 1440
"""Where audible and predicted onset are further apart than 60 ms, the predicted one counts: the first sound is weak."""
_BEFORE = (960, 2880)
_AFTER = (2880, 4800)
_FADE = 120
_SECONDS = (0.4, 14.0)
_SYMBOLS_PER_SECOND = (5.0, 30.0)
_QUARTER = FRAME_SAMPLES // LABELS
_PAUSE = 5
"""Quarters of silence (100 ms) that are a pause rather than a stop's closure."""

Samples = npt.NDArray[np.float32]


class BrokenSpeech(ValueError):
    """The teacher's output is unusable; the message says why."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The sound, in samples: first and one past the last."""

    start: int
    end: int


class Inventory:
    """Which symbols of the teacher's vocabulary are no sounds of their own."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._leading = {vocabulary[mark] for mark in "ˈˌ "}
        self._trailing = {vocabulary[mark] for mark in "ː"}
        self._silent = {vocabulary[mark] for mark in ';:,.!?—…"()“”'}

    def first_sound(self, symbols: Sequence[int]) -> int:
        """Index of the first symbol that is spoken, 0 when none is."""
        return next((index for index, symbol in enumerate(symbols) if symbol not in self._silent | self._leading), 0)

    def sounds(self, symbols: Sequence[int]) -> list[int]:
        """0 for punctuation; for stress marks and spaces what follows, for length marks what precedes."""
        named = [0 if symbol in self._silent else symbol for symbol in symbols]
        for index in range(1, len(named)):
            if named[index] in self._trailing:
                named[index] = named[index - 1]
        for index in range(len(named) - 2, -1, -1):
            if named[index] in self._leading:
                named[index] = named[index + 1]
        return named


def finish(speech: Speech, symbols: Sequence[int], inventory: Inventory, random: np.random.Generator) -> Clip:
    """Loudness, trimming and labels of ``speech``, which says ``symbols``. Raises BrokenSpeech."""
    samples = _levelled(speech.samples)
    onset = int(speech.durations[: 1 + inventory.first_sound(symbols)].sum()) * FRAME - _LEAD
    span = _sound(samples, max(0, onset))
    seconds = (span.end - span.start) / RATE
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        raise BrokenSpeech(f"{seconds:.2f} s long")
    if not _SYMBOLS_PER_SECOND[0] <= len(symbols) / seconds <= _SYMBOLS_PER_SECOND[1]:
        raise BrokenSpeech(f"{len(symbols)} symbols in {seconds:.2f} s")
    start = max(0, span.start - int(random.integers(*_BEFORE)))
    end = min(len(samples), span.end + int(random.integers(*_AFTER)))
    cut = _faded(samples[start:end])
    padded = np.pad(cut, (0, -len(cut) % FRAME_SAMPLES))
    labels = _labels(padded, speech.durations, inventory.sounds(symbols), start, span)
    return Clip(np.round(padded * 32767).astype(np.int16), labels.reshape(-1, LABELS))


def _levelled(samples: Samples) -> Samples:
    if not np.isfinite(samples).all():
        raise BrokenSpeech("not finite")
    loudness = _active_rms(samples)
    if loudness < 1e-4:
        raise BrokenSpeech("silent")
    gain = _LOUDNESS / loudness
    peak = float(np.abs(samples).max())
    limited = min(gain, _PEAK / peak)
    if limited < _MOST_REDUCED * gain:
        raise BrokenSpeech(f"a peak of {peak / loudness:.0f} times the loudness")
    return samples * np.float32(limited)


def _active_rms(samples: Samples) -> float:
    power = _power(samples, 2 * _HOP)
    active = power >= power.max() * 10 ** (-_ACTIVE_DB / 10)
    return float(np.sqrt(power[active].mean()))


def _power(samples: Samples, window: int) -> npt.NDArray[np.float32]:
    whole = len(samples) // window * window
    power: npt.NDArray[np.float32] = np.square(samples[:whole].reshape(-1, window)).mean(1)
    return power


def _sound(samples: Samples, predicted: int) -> _Span:
    audible = np.flatnonzero(_power(samples, _HOP) > _LOUDNESS**2 * 10 ** (_AUDIBLE_DB / 10)) * _HOP
    near = audible[audible >= predicted - _DISAGREEMENT]
    if not len(near):
        raise BrokenSpeech("silent")
    start = int(near[0]) if near[0] <= predicted + _DISAGREEMENT else predicted
    return _Span(start, int(near[-1]) + _HOP)


def _faded(samples: Samples) -> Samples:
    faded = samples.copy()
    ramp = np.linspace(0, 1, _FADE, dtype=np.float32)
    faded[:_FADE] *= ramp
    faded[-_FADE:] *= ramp[::-1]
    return faded


def _labels(
    padded: Samples, durations: npt.NDArray[np.int64], sounds: Sequence[int], start: int, span: _Span
) -> npt.NDArray[np.int16]:
    """The symbol at the centre of each quarter, 0 outside the sound and in pauses."""
    table = np.array([0, *sounds, 0], dtype=np.int16)
    centres = start + _QUARTER // 2 + _QUARTER * np.arange(len(padded) // _QUARTER)
    ends = np.cumsum(durations) * FRAME - _LEAD
    labels = table[np.minimum(np.searchsorted(ends, centres, side="right"), len(table) - 1)]
    labels[(centres < span.start) | (centres >= span.end)] = 0
    labels[_pauses(padded)] = 0
    return labels


def _pauses(padded: Samples) -> npt.NDArray[np.bool_]:
    quiet = _power(padded, _QUARTER) < _LOUDNESS**2 * 10 ** (_AUDIBLE_DB / 10)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2):
        quiet[begin:end] = end - begin >= _PAUSE
    return quiet
