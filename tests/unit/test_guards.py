"""The guards' checks: what is wrong with speech, and what is only unusual."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.protocol.request import CODEBOOKS, SAMPLES_PER_FRAME, AudioChunk, FinishReason, Voice
from server.guards.activity import SpeechActivity
from server.guards.check import Fault, PieceCheck
from server.guards.expectation import Paces, expected_speech, paces_of

PACE = 18.7
SENTENCE = "The bus was late again, so I walked to the office in the rain."
"""About 3.3 s of speech, 41 frames."""


def voiced(frames: int) -> NDArray[np.int16]:
    """A tone with the level of speech."""
    time = np.arange(frames * SAMPLES_PER_FRAME)
    return (3000 * np.sin(time / 20)).astype(np.int16)


def silence(frames: int) -> NDArray[np.int16]:
    """Noise far below speech."""
    return np.random.default_rng(1).integers(-3, 4, frames * SAMPLES_PER_FRAME).astype(np.int16)


def different(frames: int) -> NDArray[np.int16]:
    """Codes that never repeat."""
    return np.arange(frames, dtype=np.int16)


def chunks(samples: NDArray[np.int16], semantic: NDArray[np.int16]) -> list[AudioChunk]:
    """Chunks of up to three frames. semantic: the codes of codebook 0."""
    codes = np.zeros((len(semantic), CODEBOOKS), np.int16)
    codes[:, 0] = semantic
    step = 3
    return [
        AudioChunk(samples[start * SAMPLES_PER_FRAME : (start + step) * SAMPLES_PER_FRAME], codes[start : start + step])
        for start in range(0, len(codes), step)
    ]


def fault_of(
    parts: Sequence[NDArray[np.int16]],
    text: str = SENTENCE,
    pace: float | None = PACE,
    reason: FinishReason = FinishReason.STOP,
    semantic: NDArray[np.int16] | None = None,
    own_limit: bool = False,
) -> tuple[Fault | None, float]:
    """The fault, and the seconds after which it was found."""
    samples = np.concatenate(parts)
    check = PieceCheck(text, None if pace is None else Paces(pace, pace), own_limit=own_limit)
    codes = different(len(samples) // SAMPLES_PER_FRAME) if semantic is None else semantic
    for chunk in chunks(samples, codes):
        if (fault := check.add(chunk)) is not None:
            return fault, check.activity.seconds
    return check.end(reason), check.activity.seconds


def test_speech_of_the_expected_length_passes() -> None:
    assert fault_of([silence(2), voiced(40), silence(4)])[0] is None


@pytest.mark.parametrize("pace", [PACE, None])
def test_a_piece_without_speech_is_silent(pace: float | None) -> None:
    assert fault_of([silence(2)], "OK.", pace)[0] is Fault.SILENT
    assert fault_of([silence(20)], pace=pace)[0] is Fault.SILENT


@pytest.mark.parametrize("before", [0, 20])
def test_a_long_silence_is_found_while_it_lasts(before: int) -> None:
    fault, seconds = fault_of([voiced(before), silence(200)])
    assert fault is Fault.SILENT
    assert seconds < 6


def test_pauses_inside_speech_pass() -> None:
    assert fault_of([silence(12), voiced(20), silence(12), voiced(20), silence(12)])[0] is None


def test_speech_that_is_far_too_long_is_found_while_it_lasts() -> None:
    fault, seconds = fault_of([voiced(800)])
    assert fault is Fault.RUNAWAY
    assert seconds < 12


def test_speech_that_ends_far_too_early_is_truncated() -> None:
    assert fault_of([silence(2), voiced(14), silence(4)])[0] is Fault.TRUNCATED


def test_silence_does_not_count_as_speech() -> None:
    assert fault_of([silence(20), voiced(10), silence(20)])[0] is Fault.TRUNCATED


def test_durations_are_not_checked_when_the_pace_is_unknown() -> None:
    assert fault_of([voiced(4)], pace=None)[0] is None
    assert fault_of([voiced(800)], pace=None)[0] is None


@pytest.mark.parametrize("period", [1, 2, 7, 25])
def test_a_repeated_cycle_of_codes_is_found(period: int) -> None:
    semantic = np.concatenate([different(20), np.resize(different(period) + 100, 200)])
    fault, seconds = fault_of([voiced(220)], "a " * 300, semantic=semantic)
    assert fault is Fault.REPEATING
    assert seconds < (20 + 20 + 4 * period) * 0.08


def test_a_sustained_sound_and_a_repeated_word_pass() -> None:
    sustained = np.concatenate([different(10), np.full(10, 500), different(20) + 50]).astype(np.int16)
    assert fault_of([voiced(40)], semantic=sustained)[0] is None
    twice = np.concatenate([different(10), np.resize(different(6) + 100, 18), different(12) + 50]).astype(np.int16)
    assert fault_of([voiced(40)], semantic=twice)[0] is None


def test_a_length_limit_of_the_client_is_no_fault() -> None:
    cut = [voiced(3)]
    assert fault_of(cut, reason=FinishReason.LENGTH)[0] is Fault.LENGTH
    assert fault_of(cut, reason=FinishReason.LENGTH, own_limit=True)[0] is None


def test_a_cancelled_piece_has_no_fault() -> None:
    assert fault_of([voiced(3)], reason=FinishReason.CANCELLED)[0] is None


def test_a_text_without_words_may_be_silent() -> None:
    assert fault_of([silence(4)], "...")[0] is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("OK.", 0.3),
        ("Ten.", 0.9),
        ("NASA and the FBI met on 12/11/2024.", 5.0),
        ("NASA and the FBI met on 12/11/2024.", 2.2),
        ("$1,234,567.89", 6.0),
        ("1234567890", 5.0),
        ("你好，今天天气很好，我们去公园吧。", 4.5),
        (SENTENCE, 2.4),
        (SENTENCE, 5.5),
    ],
)
def test_the_expected_range_covers_all_ways_to_read_a_text(text: str, seconds: float) -> None:
    expected = expected_speech(text, Paces(PACE, PACE))
    assert expected.shortest < seconds < expected.longest


def test_a_voice_that_is_cloned_in_context_may_keep_the_pace_of_its_recording() -> None:
    embedding, codes = np.zeros(4, np.float32), np.zeros((125, CODEBOOKS), np.int64)
    assert paces_of(PACE, None) == paces_of(PACE, Voice(embedding)) == Paces(PACE, PACE)
    assert paces_of(PACE, Voice(embedding, codes, "a" * 120)) == Paces(12.0, PACE)
    assert paces_of(PACE, Voice(embedding, codes, "a" * 250)) == Paces(PACE, 25.0)
    assert paces_of(PACE, Voice(embedding, codes, "a")) == Paces(PACE / 2, PACE)
    assert paces_of(None, Voice(embedding, codes, "a" * 120)) is None


def test_text_that_is_appended_extends_the_expected_range() -> None:
    check = PieceCheck(SENTENCE, Paces(PACE, PACE))
    check.extend(SENTENCE * 3)
    faults = [check.add(chunk) for chunk in chunks(voiced(160), different(160))]
    assert set(faults) == {None}
    assert check.end(FinishReason.STOP) is None


def test_the_activity_does_not_depend_on_the_chunks() -> None:
    samples = np.concatenate([silence(3), voiced(4), silence(5), voiced(2), silence(1)])
    whole, pieces = SpeechActivity(), SpeechActivity()
    whole.add(samples)
    for start in range(0, len(samples), 700):
        pieces.add(samples[start : start + 700])
    for activity in (whole, pieces):
        assert activity.first == pytest.approx(0.24, abs=0.02)
        assert activity.last == pytest.approx(1.12, abs=0.02)
        assert activity.speech_seconds == pytest.approx(0.88, abs=0.03)
        assert activity.longest_gap == pytest.approx(0.4, abs=0.03)
