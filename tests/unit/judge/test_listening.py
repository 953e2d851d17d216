"""Playback computed from the arrival times of pieces."""

import numpy as np
import pytest

from scripts.judge.streams import StreamResult

RATE = 24_000


def piece(seconds, level=0.0):
    wave = level * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)
    return (wave * 2**15).astype("<i2").tobytes()


def test_leading_silence_delays_the_first_audible_sample():
    listened = StreamResult([0.1, 0.15], [piece(0.2), piece(0.5, level=0.3)])
    assert listened.first_audible_s == pytest.approx(0.3, abs=0.02)


def test_a_piece_is_audible_no_earlier_than_it_arrives():
    listened = StreamResult([0.1, 0.9], [piece(0.2), piece(0.5, level=0.3)])
    assert listened.first_audible_s == pytest.approx(0.9, abs=0.02)


def test_playback_starves_if_a_piece_arrives_late():
    listened = StreamResult([1.0, 1.1, 2.0], [piece(0.2), piece(0.3), piece(0.3)])
    assert listened.longest_underrun_s == pytest.approx(0.5, abs=0.01)


def test_playback_that_is_always_ahead_never_starves():
    listened = StreamResult([1.0, 1.1, 1.3], [piece(0.2), piece(0.3), piece(0.3)])
    assert listened.longest_underrun_s == 0


def test_the_real_time_factor_is_time_per_second_of_audio():
    assert StreamResult([0.2, 0.4], [piece(0.5), piece(0.5)]).real_time_factor == pytest.approx(0.4)
