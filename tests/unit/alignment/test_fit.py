"""Missing and repeated words are found in speech whose words are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lib.timed_speech import TimedSpeech, read_timed_speech
from server.alignment.aligner import english_aligner
from server.alignment.features import RATE
from server.alignment.fit import Fit
from server.alignment.tokens import words_of

RECORDINGS = read_timed_speech()
LONG = [each for each in RECORDINGS if len(each.times) >= 6]


def fit(samples: np.ndarray, text: str) -> Fit:
    return english_aligner().fit(samples, text)


def sample_range(recording: TimedSpeech, first: int, last: int) -> slice:
    """The samples from the start of word ``first`` to the start of word ``last``."""
    return slice(int(recording.times[first][0] * RATE), int(recording.times[last][0] * RATE))


def test_good_speech_fits_its_text() -> None:
    assert {fit(each.samples, each.text) for each in RECORDINGS} == {Fit((), 0)}


@pytest.mark.parametrize("number", range(6))
def test_removed_words_are_named(number: int) -> None:
    recording = LONG[number]
    removed = sample_range(recording, 2, 4)
    samples = np.delete(recording.samples, removed)
    found = fit(samples, recording.text)
    assert found.skipped
    assert set(found.skipped) <= set(words_of(recording.text)[2:4])


@pytest.mark.parametrize("number", range(6))
def test_a_repeated_phrase_is_found(number: int) -> None:
    recording = LONG[number]
    phrase = sample_range(recording, 1, 4)
    repeated = np.concatenate([recording.samples[: phrase.stop], recording.samples[phrase.start :]])
    assert 1 <= fit(repeated, recording.text).inserted <= 4


def test_other_speech_does_not_fit() -> None:
    first, second = LONG[:2]
    assert fit(first.samples, second.text).faults


def test_pauses_fit_any_text() -> None:
    recording = LONG[0]
    silence = np.zeros(2 * RATE, np.int16)
    assert fit(np.concatenate([silence, recording.samples, silence]), recording.text) == Fit((), 0)


@pytest.mark.parametrize(
    ("samples", "text"), [(np.zeros(0, np.int16), "Hello there."), (np.zeros(RATE, np.int16), "!")]
)
def test_without_speech_or_without_words_nothing_is_wrong(samples: np.ndarray, text: str) -> None:
    assert fit(samples, text) == Fit((), 0)
