"""Recordings of speech that are cut at a pause between two words, with their transcripts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.clips import read_clips
from scripts.judge.sound import read
from server.references.cut_at_pause import cut_at_pause
from server.references.prepare import prepare
from server.references.transcript import Transcript

PARTS = tuple(read_clips().named["ava"][:3])
"""Three recordings of a sentence by the same voice, of three to five seconds."""
TRANSCRIPT = ", ".join(part.text.removesuffix(".") for part in PARTS)


def speech(index: int) -> NDArray[np.float32]:
    samples, rate = read(PARTS[index].file)
    assert rate == SAMPLE_RATE
    loud = np.flatnonzero(np.abs(samples) > 0.02)
    return samples[loud[0] : loud[-1]].astype(np.float32)


def recording(pause: float = 0.4) -> NDArray[np.float32]:
    """The sentences without a full stop between them, so only their words say what comes before a pause."""
    silence = np.zeros(round(pause * SAMPLE_RATE), np.float32)
    return np.concatenate([part for index in range(3) for part in (speech(index), silence)])


@pytest.mark.parametrize("pause", [0.2, 0.4])
@pytest.mark.parametrize("kept", [1, 2])
def test_the_longest_beginning_that_ends_with_a_pause_is_kept_with_its_words(kept: int, pause: float) -> None:
    before = sum(len(speech(index)) for index in range(kept)) / SAMPLE_RATE + pause * (kept - 1)
    cut = cut_at_pause(recording(pause), 0, TRANSCRIPT, round((before + 1.0) * SAMPLE_RATE))
    assert cut is not None
    assert cut.transcript == ", ".join(part.text.removesuffix(".") for part in PARTS[:kept]) + "."
    assert cut.spans[-1].stop / SAMPLE_RATE == pytest.approx(before, abs=0.15)
    assert before - 0.02 < cut.end / SAMPLE_RATE < before + pause, "in the pause"


@pytest.mark.parametrize("pause", [0.2, 0.4])
def test_a_recording_for_cloning_in_context_is_cut_before_the_next_word(pause: float) -> None:
    prepared = prepare(recording(pause), Transcript(TRANSCRIPT), (1.0, 7.0))
    assert prepared.transcript is not None
    assert TRANSCRIPT.startswith(prepared.transcript.removesuffix("."))
    words = [part.text.removesuffix(".") for part in PARTS]
    kept = words.index(prepared.transcript.removesuffix(".").split(", ")[-1]) + 1
    assert len(prepared.samples) <= sum(len(speech(index)) for index in range(kept)) + kept * pause * SAMPLE_RATE
    assert prepared.changes.cut is not None


def test_a_pause_in_the_first_half_is_not_enough() -> None:
    pause = np.zeros(SAMPLE_RATE // 2, np.float32)
    samples = np.concatenate([speech(0), pause, speech(1), speech(2)])
    assert len(speech(0)) < 3.4 * SAMPLE_RATE
    assert cut_at_pause(samples, 0, TRANSCRIPT, round(6.4 * SAMPLE_RATE)) is not None
    assert cut_at_pause(samples, 0, TRANSCRIPT, round(7.5 * SAMPLE_RATE)) is None


def test_without_a_pause_it_is_not_cut() -> None:
    assert cut_at_pause(recording(), 0, TRANSCRIPT, 2 * SAMPLE_RATE) is None


@pytest.mark.parametrize(
    "transcript",
    [
        "Tomorrow my brother will paint the garden shed, his neighbour wants to help him, they begin at nine o'clock",
        "Morgen streicht mein Bruder den Schuppen im Garten, der Nachbar will ihm helfen, sie beginnen um neun Uhr",
        "Завтра мой брат покрасит сарай в саду, сосед хочет ему помочь, они начинают в девять часов",
    ],
    ids=["other words", "German", "Russian"],
)
def test_a_transcript_that_does_not_fit_the_speech_is_not_cut(transcript: str) -> None:
    assert cut_at_pause(recording(), 0, transcript, 7 * SAMPLE_RATE) is None
