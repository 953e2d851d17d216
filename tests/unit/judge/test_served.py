"""Counts of faulty speech in the answers of a server."""

import pytest

from scripts.judge.expected import RUNAWAY, TRUNCATED
from scripts.judge.served import SILENT, Answer, fault_of, mixed_texts, report

TEXT = "The ferry leaves the harbour at noon and comes back before dark."


def row(seconds, speech=2.0, heard=TEXT, lost=()):
    recognized = {name: {"heard": heard, "errors": 1, "words": 10, "ending_lost": True} for name in lost}
    moonshine = {"heard": heard, "errors": 1, "words": 10, "ending_lost": False}
    return {"text": TEXT, "seconds": seconds, "onset_s": 0.1, "speech_s": speech, "moonshine": moonshine, **recognized}


@pytest.mark.parametrize(
    ("scores", "fault"),
    [
        (row(4.0), None),
        (row(4.0, speech=0.0, lost=("moonshine", "whisper")), SILENT),
        (row(9.0), RUNAWAY),
        (row(1.0), TRUNCATED),
        (row(4.0, lost=("moonshine", "whisper")), TRUNCATED),
    ],
)
def test_speech_is_silent_runaway_or_truncated(scores, fault):
    assert fault_of(scores) == fault


def test_the_report_counts_errors_and_faults_and_names_each():
    answers = [Answer("One.", None, None), Answer("Two.", None, None), Answer("日本", "unsupported_text", None)]
    lines = report(answers, [row(4.0), row(9.0, heard="The ferry, the ferry.")]).splitlines()
    assert lines == [
        "3 texts: 2 with status 200, 1 errors",
        "of those with status 200: 1 runaway, 0 silent, 0 truncated",
        "word error rate, Moonshine: 10.0 %",
        "error unsupported_text: '日本'",
        f"runaway, 9.0 s: {TEXT!r} heard as 'The ferry, the ferry.'",
    ]


def test_some_2000_different_texts_are_spoken():
    texts = mixed_texts()
    assert len(texts) == len(set(texts)) > 2000
    assert "Hello there, **this** is a *test*." in texts
