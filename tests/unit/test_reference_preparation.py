"""Preparation of reference recordings: silence, transcripts that do not match, and recordings that are too long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from server.api_error import ApiError
from server.references.prepare import Prepared, prepare
from server.references.speech_spans import speech_spans
from server.references.transcript import Transcript, spoken_transcript, with_stop

STEPS = ("unicode", "markup", "emoji", "normalize")
SENTENCES = ("The ferry leaves at noon on Sunday.", "Nobody waits.", "It comes back before dark, with the mail.")
RANGE = (1.0, 7.0)


def voiced(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """A buzz whose level rises and falls as in syllables."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    syllables = 0.6 + 0.4 * np.sin(2 * np.pi * 4.5 * time + seed)
    return (0.3 * syllables * np.sign(np.sin(2 * np.pi * 140 * time))).astype(np.float32)


def silence(seconds: float, level: float = 1e-4) -> NDArray[np.float32]:
    noise = np.random.default_rng(0).standard_normal(round(seconds * SAMPLE_RATE))
    return (level * noise).astype(np.float32)


def recording(*parts: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate(parts)


def read_aloud(sentences: Sequence[str], pause: float = 0.6, rate: float = 16.0) -> NDArray[np.float32]:
    """Sentences at ``rate`` letters per second, with pauses between them."""
    parts = [silence(0.2)]
    for sentence in sentences:
        parts += [voiced(len(sentence) / rate), silence(pause)]
    return recording(*parts)


def prepared(samples: NDArray[np.float32], transcript: str | None, **options: object) -> Prepared:
    text = None if transcript is None else Transcript(transcript)
    return prepare(samples, text, RANGE, **options)  # type: ignore[arg-type]


def seconds(samples: NDArray[np.float32]) -> float:
    return len(samples) / SAMPLE_RATE


@pytest.mark.parametrize("level", [0.0, 1e-4, 1e-2], ids=["digital silence", "quiet room", "noisy room"])
def test_silence_at_the_ends_is_trimmed_to_a_fixed_amount(level: float) -> None:
    speech = voiced(3.0)
    for before, after in ((0.5, 2.0), (2.0, 0.5)):
        result = prepared(recording(silence(before, level), speech, silence(after, level)), "x" * 45)
        assert seconds(result.samples) == pytest.approx(3.4, abs=0.04)
        assert result.changes.trimmed == pytest.approx(2.1, abs=0.04)


def test_silence_is_trimmed_for_an_x_vector_too() -> None:
    result = prepared(recording(silence(1.0), voiced(3.0), silence(1.0)), None)
    assert seconds(result.samples) == pytest.approx(3.4, abs=0.04)
    assert result.transcript is None


def test_a_recording_without_silence_is_used_unchanged() -> None:
    speech = voiced(3.0)
    result = prepared(speech, "x" * 45)
    assert np.array_equal(result.samples, speech)
    assert not str(result.changes)


def test_the_click_that_ends_a_recording_is_not_speech() -> None:
    click = np.full(SAMPLE_RATE // 100, 0.5, np.float32)
    samples = recording(voiced(3.0), silence(1.0), click, silence(0.1))
    result = prepared(samples, "x" * 45)
    assert seconds(result.samples) == pytest.approx(3.3, abs=0.04)


def test_a_steady_sound_is_all_speech() -> None:
    tone = (0.3 * np.sin(np.arange(2 * SAMPLE_RATE) * 0.05)).astype(np.float32)
    assert [tuple(span) for span in speech_spans(tone)] == [(0, len(tone))]


def test_too_little_speech_is_refused_with_its_duration() -> None:
    with pytest.raises(ApiError, match=r"at least 1 s of speech .*got 0\.50 s") as refusal:
        prepared(recording(silence(2.0), voiced(0.5), silence(2.0)), None)
    assert (refusal.value.param, refusal.value.code) == ("ref_audio", "reference_too_short")


@pytest.mark.parametrize("letters", [15, 150], ids=["too short", "too long"])
def test_a_transcript_of_another_length_is_refused(letters: int) -> None:
    with pytest.raises(ApiError, match=rf"3\.0 s of speech.*got {letters}") as refusal:
        prepared(recording(silence(0.3), voiced(3.0), silence(0.3)), "x" * letters)
    assert (refusal.value.status, refusal.value.param, refusal.value.code) == (400, "ref_text", "transcript_mismatch")


def test_a_mismatched_transcript_can_be_dropped_instead() -> None:
    result = prepared(voiced(3.0), "x" * 15, mismatched="x_vector")
    assert result.transcript is None
    assert str(result.changes) == "x-vector only (transcript_mismatch)"


def test_a_mismatched_transcript_can_be_used_anyway() -> None:
    assert prepared(voiced(3.0), "x" * 15, mismatched="use").transcript == "x" * 15


@pytest.mark.parametrize(
    ("transcript", "spoken_seconds"),
    [
        ("I am old, and I speak slowly.", 3.4),
        ("And then he said that nobody should ever have gone there at all without a lamp.", 3.2),
        ("今天天气很好，我们去公园散步吧。", 3.0),
        ("안녕하세요, 만나서 반갑습니다.", 2.2),
        ("1984", 1.5),
    ],
)
def test_slow_and_fast_speech_in_any_script_is_plausible(transcript: str, spoken_seconds: float) -> None:
    assert prepared(voiced(spoken_seconds), transcript).transcript is not None


def test_pauses_do_not_make_a_transcript_too_short() -> None:
    samples = recording(voiced(1.0), silence(1.5), voiced(1.0), silence(1.5), voiced(1.0))
    assert prepared(samples, "One thing, then another, and a third one.").transcript is not None


def test_a_long_recording_is_cut_at_the_end_of_a_sentence() -> None:
    sentences = [*SENTENCES, *SENTENCES]
    samples = read_aloud(sentences)
    result = prepared(samples, " ".join(sentences))
    assert result.transcript == " ".join(SENTENCES)
    spoken = sum(map(len, SENTENCES)) / 16 + 2 * 0.6
    assert seconds(result.samples) == pytest.approx(spoken + 0.4, abs=0.04)
    assert result.changes.cut is not None
    assert list(result.changes.cut) == pytest.approx([seconds(samples), spoken + 0.4], abs=0.04)


def test_a_pause_within_a_sentence_is_not_its_end() -> None:
    words = "He waited for a long time beside the old gate, and then he went home again without a word to anybody."
    samples = recording(voiced(3.2), silence(0.7), voiced(3.4), silence(0.3), voiced(2.0))
    result = prepared(samples, f"{words} Goodbye to you all, he said.")
    assert result.transcript is None or result.transcript.startswith(words)


def test_a_long_recording_without_a_pause_is_cloned_by_its_x_vector() -> None:
    text = " ".join([*SENTENCES, *SENTENCES])
    result = prepared(voiced(len(text) / 15), text)
    assert result.transcript is None
    assert str(result.changes) == "x-vector only (reference_too_long)"


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        ("Hello there", "Hello there."),
        ("Hello there, ", "Hello there."),
        ("Hello there \u2014", "Hello there."),
        ("Hello there.", "Hello there."),
        ("Hello there?", "Hello there?"),
        ("He said \u201chello.\u201d", "He said \u201chello.\u201d"),
        ("你好", "你好。"),
        ("你好。", "你好。"),
        ("\u306f\u3044\u3001", "\u306f\u3044\u3002"),
        ("\u0928\u092e\u0938\u094d\u0924\u0947", "\u0928\u092e\u0938\u094d\u0924\u0947\u0964"),
    ],
)
def test_a_missing_final_stop_is_completed(transcript: str, expected: str) -> None:
    assert with_stop(transcript) == expected


def test_a_transcript_passes_through_the_text_front_end() -> None:
    spoken = spoken_transcript("**It** costs $5 \U0001f389", "english", STEPS)
    assert spoken == Transcript("It costs five dollars.", stop_added=True)
    assert not spoken_transcript("It costs five dollars.", "english", STEPS).stop_added


def test_a_transcript_without_words_is_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        spoken_transcript("\U0001f389", "english", STEPS)
    assert (refusal.value.status, refusal.value.param, refusal.value.code) == (400, "ref_text", "nothing_to_speak")
