"""Recordings of people become training data: split at pauses, transcribed, and played at several speeds."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from engine.protocol.request import SAMPLE_RATE as RATE
from scripts.judge.sound import loudness_db
from scripts.train_pocket import recorded_phonemes, speed_perturbation
from scripts.train_pocket.audio_shards import FRAME_SAMPLES, utterance_ids
from scripts.train_pocket.prepare_recordings import cut, divide, is_plausible, split
from scripts.train_pocket.recorded_pieces import RecordedPiece, SpokenPhoneme, write_pieces
from scripts.train_pocket.teacher import remaining_utterances
from scripts.train_pocket.utterances import PlannedUtterance, read_plan, write_plan
from server.alignment.timed_words import WordTime


def speech(seconds, hertz=200.0):
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE).astype(np.float32)


def pause(seconds):
    return np.zeros(round(seconds * RATE), np.float32)


def lengths(parts):
    return [round(len(part) / RATE, 1) for part in parts]


def test_recordings_are_split_at_pauses_into_pieces_that_are_long_enough():
    recording = np.concatenate([speech(3), pause(0.4), speech(1), pause(0.4), speech(3), pause(0.1), speech(3)])
    assert lengths(split(recording, RATE)) == [3.1, 7.6]


def test_short_recordings_stay_whole_and_long_or_silent_ones_are_left_out():
    assert lengths(split(np.concatenate([pause(1), speech(1), pause(1)]), RATE)) == [1.2]
    assert split(speech(20), RATE) == []
    assert split(pause(0.01), RATE) == []
    assert lengths(split(np.concatenate([pause(6), speech(3)]), RATE)) == [3.1]


def test_pieces_of_all_speakers_are_written_with_their_speaker(tmp_path):
    for speaker in ("ann", "bob"):
        (tmp_path / speaker / "chapter").mkdir(parents=True)
        soundfile.write(tmp_path / speaker / "1.wav", np.concatenate([speech(3), pause(1), speech(3)]), RATE)
    (tmp_path / "bob" / "1.wav").rename(tmp_path / "bob" / "chapter" / "1.WAV")
    (tmp_path / "ann" / "notes.txt").write_text("not audio")
    written = list(cut(tmp_path, tmp_path / "out"))
    assert [speaker for _, speaker in written] == ["ann", "ann", "bob", "bob"]
    assert all(soundfile.info(file).duration == pytest.approx(3.1, abs=0.05) for file, _ in written)


@pytest.mark.parametrize(
    ("text", "seconds", "expected"),
    [
        ("A plain sentence that takes a while.", 3.0, True),
        ("Hm.", 3.0, False),
        ("Far too many words for a recording of this length.", 1.0, False),
        ("It costs 20 € in the shop over there.", 3.0, False),
        ("", 3.0, False),
    ],
)
def test_only_plausible_transcripts_are_used(text, seconds, expected):
    assert is_plausible(text, seconds) == expected


def test_held_out_speakers_are_not_trained_on_and_others_have_two_pieces():
    pieces = [RecordedPiece("", f"speaker{number % 200}", "", "", []) for number in range(300)]
    used, held_out = divide(pieces)
    assert not {each.speaker for each in used} & {each.speaker for each in held_out}
    assert {each.speaker for each in used} < {f"speaker{number}" for number in range(100)}
    assert 5 < len({each.speaker for each in held_out}) < 40


@pytest.mark.parametrize("speed", [0.82, 1.0, 1.22])
def test_a_faster_voice_is_higher_and_shorter(speed):
    played = speed_perturbation.at_speed(speech(2, 1000), speed, "ann")
    spectrum = np.abs(np.fft.rfft(played))
    assert np.fft.rfftfreq(len(played), 1 / RATE)[spectrum.argmax()] == pytest.approx(1000 * speed, rel=2e-3)
    assert len(played) == pytest.approx(2 * RATE / speed, abs=60)


def test_levels_vary_without_clipping():
    loud = speed_perturbation.at_level(speech(1), 0.0)
    assert np.abs(loud).max() == pytest.approx(0.99, abs=1e-3)
    assert loudness_db(speed_perturbation.at_level(speech(1), -25.0)) == pytest.approx(-25, abs=0.1)


def test_every_planned_utterance_has_audio(tmp_path, monkeypatch):
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    for number in range(3):
        soundfile.write(pieces / f"{number}.flac", speech(0.5), RATE)
    phonemes = [SpokenPhoneme(5, 0.0, 0.2), SpokenPhoneme(6, 0.3, 0.5)]
    write_pieces(pieces, [RecordedPiece(f"{number}.flac", "ann", "Hello there.", "-", phonemes) for number in range(3)])
    teacher = PlannedUtterance(7, "Hi.", "haI", "emma", 1.0, "british")
    write_plan(tmp_path / "plan.jsonl.gz", [teacher])
    command = ["speed_perturbation", "--pieces", str(pieces), "--data", str(tmp_path), "--out", str(tmp_path / "audio")]
    monkeypatch.setattr(sys, "argv", command)
    speed_perturbation.main()
    first, *added = read_plan(tmp_path / "plan.jsonl.gz")
    assert first == teacher
    assert {each.id for each in added} == utterance_ids(tmp_path / "audio")
    assert len({each.speaker for each in added}) == len(speed_perturbation.SPEEDS)
    assert len({each.id % 100 for each in added}) == 3, "the speeds of a piece are held out together"
    assert list(remaining_utterances(tmp_path / "plan.jsonl.gz", 0, None, 0, 1, set())) == [teacher]
    with np.load(next((tmp_path / "audio").glob("*.npz"))) as shard:
        assert not (np.diff(shard["starts"]) % FRAME_SAMPLES).any()
        assert np.abs(shard["samples"]).max() > 500
        assert {0, 5, 6} == set(shard["labels"].ravel().tolist())
    speed_perturbation.main()
    assert len(list(read_plan(tmp_path / "plan.jsonl.gz"))) == 1 + len(added)
    assert sum(len(np.load(file)["ids"]) for file in (tmp_path / "audio").glob("*.npz")) == len(added)


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.0, [[0, 5, 5, 5], [6, 6, 6, 6]]), (2.0, [[5, 5, 6, 6], [6, 0, 0, 0]])]
)
def test_labels_follow_the_speed(speed, expected):
    phonemes = [SpokenPhoneme(5, 0.015, 0.085), SpokenPhoneme(6, 0.085, 0.2)]
    assert speed_perturbation.labels(phonemes, 2, speed).tolist() == expected


def test_phonemes_have_times_within_their_words(tmp_path, monkeypatch):
    vocabulary = tmp_path / "vocab.json"
    symbols = 'ptkɛˈˌ ː;:,.!?—…"()“”'
    vocabulary.write_text(json.dumps({symbol: number for number, symbol in enumerate(symbols, start=1)}))
    words = [WordTime("Oh", 0.1, 0.3), WordTime("Yes.", 1.0, 1.36)]
    aligner = SimpleNamespace(align=lambda samples, text: words)
    monkeypatch.setattr(recorded_phonemes, "english_aligner", lambda: aligner)
    phonemes = {"Oh": "tk", "Yes.": "pˈɛt."}
    times = recorded_phonemes.PhonemeTimes(vocabulary, lambda word, accent: phonemes[word])
    found = times(speech(2), "Oh Yes.")
    assert [each.symbol for each in found] == [2, 3, 1, 4, 2]
    assert [each.start for each in found] == pytest.approx([0.1, 0.2, 1.0, 1.1, 1.26])
    assert found[-1].end == pytest.approx(1.36)
