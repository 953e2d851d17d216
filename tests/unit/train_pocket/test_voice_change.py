"""Changes of the vocal tract, the pitch and the average spectrum of the teacher's speech."""

import numpy as np
import pytest
import torch

from scripts.train_pocket.speakers import Speaker
from scripts.train_pocket.teacher_model import Speech, TeacherInput, _change_pitch
from scripts.train_pocket.voice_change import BANDS, RATE, change_voice, teacher_pitch, teacher_speed

DURATIONS = np.array([10, 30, 40])


def tone(hertz, samples=48_000):
    return np.sin(2 * np.pi * hertz * np.arange(samples) / RATE).astype(np.float32)


def loudest_hertz(samples):
    return np.fft.rfftfreq(len(samples), 1 / RATE)[np.abs(np.fft.rfft(samples)).argmax()]


def speaker(**changes):
    return Speaker({"af_heart": 1.0}, "american", "varied", **changes)


@pytest.mark.parametrize("tract", [0.85, 1.0, 1.18])
def test_a_shorter_tract_raises_every_frequency_and_the_durations_fit(tract):
    changed = change_voice(Speech(tone(1000), DURATIONS), speaker(tract=tract))
    assert loudest_hertz(changed.samples) == pytest.approx(1000 * tract, rel=2e-3)
    assert changed.durations.sum() * 600 == pytest.approx(len(changed.samples))
    assert np.abs(changed.samples).max() == pytest.approx(1, abs=0.1)


def test_speed_and_pitch_of_the_result_are_those_of_the_speaker():
    body = speaker(tract=1.1, pitch=1.3)
    assert teacher_speed(body, 1.0) * body.tract == pytest.approx(1.0)
    assert teacher_pitch(body) * body.tract == pytest.approx(1.3)


def test_the_equalizer_changes_the_level_at_its_bands():
    gains = (6.0, 0.0, 0.0, -6.0, 0.0, 0.0)
    for hertz, decibels in zip(BANDS, gains, strict=True):
        changed = change_voice(Speech(tone(round(hertz)), DURATIONS), speaker(equalizer=gains)).samples
        assert 20 * np.log10(changed.std() / tone(round(hertz)).std()) == pytest.approx(decibels, abs=0.4)


def test_pitch_moves_and_widens_only_where_it_is_voiced():
    pitch = torch.tensor([[0.0, 100.0, 400.0, 3.0]])
    changed = _change_pitch(pitch, [TeacherInput([], np.zeros(256, np.float32), 1.0, pitch=1.5, pitch_range=0.5)])
    np.testing.assert_allclose(changed[0], [0.0, 1.5 * 200 / 2**0.5, 1.5 * 200 * 2**0.5, 3.0], rtol=1e-5)
    same = _change_pitch(pitch, [TeacherInput([], np.zeros(256, np.float32), 1.0)])
    np.testing.assert_allclose(same, pitch, rtol=1e-5)
