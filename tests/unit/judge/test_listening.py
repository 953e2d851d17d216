"""What a listener hears follows from when the pieces came."""

import numpy as np
import pytest

from scripts.judge.streams import StreamResult

RATE = 24_000


def piece(seconds, level=0.0):
    wave = level * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)
    return (wave * 2**15).astype("<i2").tobytes()


def test_silence_at_the_beginning_is_waited_through():
    heard = StreamResult([0.1, 0.15], [piece(0.2), piece(0.5, level=0.3)])
    assert heard.first_audible_s == pytest.approx(0.3, abs=0.02)


def test_a_sound_is_not_heard_before_it_has_come():
    heard = StreamResult([0.1, 0.9], [piece(0.2), piece(0.5, level=0.3)])
    assert heard.first_audible_s == pytest.approx(0.9, abs=0.02)


def test_a_player_starves_when_a_piece_comes_after_the_others_are_played():
    heard = StreamResult([1.0, 1.1, 2.0], [piece(0.2), piece(0.3), piece(0.3)])
    assert heard.longest_underrun_s == pytest.approx(0.5, abs=0.01)


def test_a_player_that_is_always_ahead_never_starves():
    heard = StreamResult([1.0, 1.1, 1.3], [piece(0.2), piece(0.3), piece(0.3)])
    assert heard.longest_underrun_s == 0


def test_the_real_time_factor_is_time_for_each_second_of_sound():
    assert StreamResult([0.2, 0.4], [piece(0.5), piece(0.5)]).real_time_factor == pytest.approx(0.4)
