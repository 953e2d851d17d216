"""Attempts of a ScriptedEngine that deliver a recording: with all words, without some, or with some twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.timed_speech import read_timed_speech
from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME, AudioChunk
from engine.protocol.speech_profile import SpeechProfile
from tests.support.scripted_engine import PACE, Take

RECORDING = next(each for each in read_timed_speech() if each.text.startswith("We are looking forward"))
"""Held-out speech of the teacher of the pocket checkpoint, 6.6 s."""
PROFILE = SpeechProfile(text_steps=("normalize",), languages=("english",), characters_per_second=PACE)
"""Of a checkpoint whose words are checked."""
Samples = NDArray[np.int16]
Script = Callable[[str], Take]


@dataclass(frozen=True)
class Recorded(Take):
    """An attempt that delivers ``samples``."""

    samples: Samples | None = None

    def chunks(self, seed: int) -> list[AudioChunk]:
        assert self.samples is not None
        codes = np.arange(self.frames * CODEBOOKS, dtype=np.int16).reshape(-1, CODEBOOKS)
        pairs = zip(self.samples.reshape(self.frames, -1), codes[:, None], strict=True)
        return [AudioChunk(samples, code) for samples, code in pairs]


def recorded(samples: Samples) -> Script:
    """The script of an attempt that delivers ``samples``."""
    frames = -(-len(samples) // SAMPLES_PER_FRAME)
    padded = np.pad(samples, (0, frames * SAMPLES_PER_FRAME - len(samples)))
    return lambda text: Recorded(frames, samples=padded)


def changed(script: Script, **fields: Any) -> Script:
    """The script with other fields of its take."""
    return lambda text: replace(script(text), **fields)


def samples_of(script: Script) -> Samples:
    """All samples of an attempt."""
    return np.concatenate([chunk.samples for chunk in script("").chunks(0)])


def _without_words(*words: int) -> Samples:
    starts = [int(SAMPLE_RATE * start) for start, _ in RECORDING.times]
    return np.delete(RECORDING.samples, np.concatenate([np.arange(starts[w], starts[w + 1]) for w in words]))


def _twice(first: int, last: int) -> Samples:
    start, end = (int(SAMPLE_RATE * RECORDING.times[word][0]) for word in (first, last))
    return np.concatenate([RECORDING.samples[:end], RECORDING.samples[start:]])


GOOD = recorded(RECORDING.samples)
ONE_MISSING = recorded(_without_words(2))
MANY_MISSING = recorded(_without_words(2, 3, 6))
REPEATED = recorded(_twice(1, 4))
