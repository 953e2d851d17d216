"""Detection of faulty utterances: runaway, truncated or late."""

import pytest

from scripts.judge.ending import ending_lost
from scripts.judge.expected import LATE, RUNAWAY, TRUNCATED, expected_s, faults, max_frames

TEXT = "The ferry leaves the harbour at noon and comes back before dark."


def row(seconds, onset=0.1, lost=(False, False)):
    heard = dict(zip(("moonshine", "whisper"), ({"ending_lost": each} for each in lost), strict=True))
    return {"text": TEXT, "seconds": seconds, "onset_s": onset, **heard}


def test_the_pace_of_the_teacher_is_no_fault():
    assert faults(row(expected_s(TEXT)), stopped=True) == []


@pytest.mark.parametrize("seconds", [0.9 * expected_s(TEXT), 2.1 * expected_s(TEXT)])
def test_an_utterance_without_an_end_or_twice_as_long_is_a_runaway(seconds):
    assert (RUNAWAY in faults(row(seconds), stopped=True)) == (seconds > 2 * expected_s(TEXT))
    assert RUNAWAY in faults(row(seconds), stopped=False)


def test_less_than_half_the_expected_duration_is_truncated():
    assert faults(row(0.4 * expected_s(TEXT)), stopped=True) == [TRUNCATED]


def test_an_ending_heard_by_one_recognizer_is_present():
    assert faults(row(expected_s(TEXT), lost=(True, False)), stopped=True) == []
    assert faults(row(expected_s(TEXT), lost=(True, True)), stopped=True) == [TRUNCATED]


def test_more_than_300_ms_of_leading_silence_is_late():
    assert faults(row(expected_s(TEXT), onset=0.29), stopped=True) == []
    assert faults(row(expected_s(TEXT), onset=0.31), stopped=True) == [LATE]


def test_the_frame_limit_exceeds_the_runaway_threshold():
    assert max_frames(TEXT) * 0.08 > 2 * expected_s(TEXT)


@pytest.mark.parametrize(
    ("heard", "lost"),
    [
        ("it comes back before dark", False),
        ("it comes back before dock", False),
        ("it comes back before dark thank you", False),
        ("it comes", True),
        ("back before dark it comes and goes all day", True),
        ("", True),
    ],
)
def test_an_ending_is_lost_if_none_of_its_last_three_words_was_heard(heard, lost):
    assert ending_lost("it comes back before dark".split(), heard.split()) is lost
