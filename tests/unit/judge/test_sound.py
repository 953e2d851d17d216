"""Measurement of levels, onsets and durations of speech."""

import numpy as np
import pytest

from scripts.judge.sound import loudness_db, onset_s, speech_s, trim_silence

RATE = 24_000


def tone(seconds, level=0.1):
    return (level * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def silence(seconds):
    return np.zeros(round(seconds * RATE), np.float32)


def test_the_onset_is_the_start_of_speech():
    assert onset_s(np.concatenate([silence(0.4), tone(1.0)]), RATE) == pytest.approx(0.4, abs=0.01)


def test_faint_noise_before_speech_is_not_the_onset():
    assert onset_s(np.concatenate([tone(0.4, level=0.001), tone(1.0)]), RATE) == pytest.approx(0.4, abs=0.01)


def test_the_onset_of_silence_is_its_end():
    assert onset_s(silence(0.7), RATE) == pytest.approx(0.7)
    assert speech_s(silence(0.7), RATE) == 0


def test_silence_at_both_ends_is_not_speech():
    assert speech_s(np.concatenate([silence(0.3), tone(1.0), silence(0.5)]), RATE) == pytest.approx(1.0, abs=0.02)


def test_trimming_keeps_a_tenth_of_a_second_at_each_end():
    kept = trim_silence(np.concatenate([silence(1.0), tone(1.0), silence(1.0)]), RATE)
    assert len(kept) / RATE == pytest.approx(1.2, abs=0.02)


def test_pauses_do_not_lower_the_loudness():
    plain = loudness_db(tone(1.0))
    assert plain == pytest.approx(20 * np.log10(0.1 / np.sqrt(2)), abs=0.1)
    assert loudness_db(np.concatenate([tone(0.5), silence(2.0), tone(0.5)])) == pytest.approx(plain, abs=0.1)


def test_an_empty_recording_can_be_measured():
    empty = np.zeros(0, np.float32)
    assert onset_s(empty, RATE) == 0
    assert loudness_db(empty) == -np.inf
