"""The teacher's speech is normalized in loudness, trimmed, and labeled in sync with its sounds."""

import numpy as np
import pytest

from scripts.train_pocket import audio_shards, teacher_audio
from scripts.train_pocket.teacher_audio import InvalidSpeech, Inventory, finish
from scripts.train_pocket.teacher_model import FRAME, Speech, limit_last_sound

VOCABULARY = {symbol: index for index, symbol in enumerate(';:,.!?—…"()“” ˈˌːabc', 1)}
INVENTORY = Inventory(VOCABULARY)
A, B, STRESS, LONG, SPACE, STOP = (VOCABULARY[symbol] for symbol in "abˈː .")


def speech(frames, gain=0.03):
    """A tone for each sound at 200 Hz times its index; silence for start, end and punctuation."""
    symbols = [symbol for symbol, _ in frames]
    durations = np.array([12, *(count for _, count in frames), 20])
    sounding = np.repeat([0, *INVENTORY.sounds(symbols), 0], durations * FRAME)
    time = np.arange(len(sounding)) / teacher_audio.RATE
    samples = np.roll(gain * np.sin(2 * np.pi * 200 * sounding * time), -teacher_audio._LEAD)
    return Speech(samples.astype(np.float32), durations), symbols


def test_loudness_and_silences_are_in_range():
    spoken, symbols = speech([*[(A, 4)] * 5, *[(B, 4)] * 5, (STOP, 6)])
    clip = finish(spoken, symbols, INVENTORY, np.random.default_rng(3))
    assert clip.samples.dtype == np.int16
    assert len(clip.samples) == 1920 * len(clip.labels)
    sound = np.flatnonzero(np.abs(clip.samples) > 100)
    assert 0.04 <= sound[0] / 24000 <= 0.13
    assert 0.11 <= (len(clip.samples) - sound[-1]) / 24000 <= 0.3
    loudness = np.sqrt(np.mean((clip.samples[sound[0] : sound[-1]] / 32767.0) ** 2))
    assert 20 * np.log10(loudness) == pytest.approx(-20, abs=0.3)


def test_labels_name_the_sound_at_their_center():
    spoken, symbols = speech([*[(STRESS, 2), (A, 5), (LONG, 2)] * 2, (STOP, 8), *[(SPACE, 1), (B, 5)] * 3, (STOP, 6)])
    clip = finish(spoken, symbols, INVENTORY, np.random.default_rng(4))
    quarters = clip.samples.reshape(-1, 480) / 32767.0
    pitch = np.argmax(np.abs(np.fft.rfft(quarters * np.hanning(480), axis=1)), axis=1) * 50
    silent = np.abs(quarters).max(1) < 1e-3
    labels = clip.labels.reshape(-1)
    assert set(labels.tolist()) == {0, A, B}
    inside = ~silent & ~np.roll(silent, 1) & ~np.roll(silent, -1)
    assert np.mean(labels[silent] == 0) > 0.9
    agree = np.abs(pitch - 200 * labels)[inside] <= 50
    assert np.mean(agree) > 0.8


def test_modifiers_take_the_sound_they_modify():
    assert INVENTORY.sounds([STRESS, A, LONG, SPACE, STRESS, B]) == [A, A, A, B, B, B]
    assert INVENTORY.first_sound([VOCABULARY['"'], STRESS, A]) == 2


@pytest.mark.parametrize("frames", [[(A, 5)], [(A, 800)], [(A, 400)]])
def test_rejects_speech_of_unlikely_duration(frames):
    with pytest.raises(InvalidSpeech):
        finish(*speech(frames), INVENTORY, np.random.default_rng(0))


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_rejects_silent_and_non_finite_samples(value):
    spoken, symbols = speech([(A, 20), (B, 20)])
    with pytest.raises(InvalidSpeech):
        finish(
            Speech(np.full_like(spoken.samples, value), spoken.durations), symbols, INVENTORY, np.random.default_rng(0)
        )


def clip_of(frames):
    return audio_shards.Clip(np.full(frames * 1920, frames, np.int16), np.full((frames, 4), frames, np.int16))


def test_shards_are_written_when_full_and_numbering_continues_in_the_next_process(tmp_path):
    writer = audio_shards.ShardWriter(tmp_path, rank=2, shard_samples=5 * 1920)
    assert [writer.add(number, clip_of(2)) for number in (10, 11, 12, 13)] == [False, False, True, False]
    writer.flush()
    audio_shards.ShardWriter(tmp_path, rank=2, shard_samples=1).add(14, clip_of(1))
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"shard-002-00{number}.npz" for number in range(3)]
    assert audio_shards.utterance_ids(tmp_path) == {10, 11, 12, 13, 14}
    with np.load(tmp_path / "shard-002-000.npz") as shard:
        assert shard["starts"].tolist() == [0, 3840, 7680, 11520]
        assert shard["samples"].dtype == shard["labels"].dtype == np.int16
        assert shard["labels"].shape == (6, 4)


def test_the_last_sound_of_a_short_utterance_is_not_drawn_out():
    symbols, silent = [5, 6, 7, 1], {1}
    frames = np.array([12, 2, 3, 20, 9, 6])
    limit_last_sound(frames, symbols, silent)
    assert frames.tolist() == [12, 2, 3, 8, 9, 6]
    long = np.array([12, *[20] * 40, 6])
    limit_last_sound(long, [5] * 40, silent)
    assert long.tolist() == [12, *[20] * 40, 6]
