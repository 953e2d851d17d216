"""Counts of faulty speech in the answers of a server."""

from pathlib import Path

import pytest

from scripts.judge.expected import RUNAWAY, TRUNCATED
from scripts.judge.figures import RECOGNIZERS
from scripts.judge.recordings import Recording
from scripts.judge.served import SILENT, Answer, fault_of, judge, mixed_texts, report

TEXT = "The ferry leaves the harbour at noon and comes back before dark."
LONGER = TEXT + " And then it comes back before dark."
SHORTER = "The ferry leaves the harbour."


def row(seconds, *heard, speech=2.0, text=TEXT):
    counts = {"errors": 1, "words": 10, "ending_lost": False}
    recognized = {name: {"heard": each, **counts} for name, each in zip(RECOGNIZERS, heard, strict=False)}
    return {"text": text, "seconds": seconds, "onset_s": 0.1, "speech_s": speech, **recognized}


@pytest.mark.parametrize(
    ("scores", "fault"),
    [
        (row(4.0, TEXT), None),
        (row(4.0, "", "", speech=0.0), SILENT),
        (row(9.0, LONGER), RUNAWAY),
        (row(9.0, LONGER, TEXT), None),
        (row(9.0, TEXT), None),
        (row(13.0, TEXT, TEXT), RUNAWAY),
        (row(3.0, SHORTER), TRUNCATED),
        (row(3.0, SHORTER, TEXT), None),
        (row(2.6, "Five fifty-five dash twelve.", text="Five five five, one two."), None),
        (row(1.4, "50%er", text="Fifty percent."), None),
        (row(1.0, "Sighs it.", text="Five."), None),
        (row(3.0, "5 prime utr and 3 prime utr.", text="Five prime U T R and three prime U T R."), None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_speech_is_silent_runaway_or_truncated(scores, fault):
    assert fault_of(scores) == fault


def test_pauses_that_a_text_asks_for_do_not_count_as_speech(monkeypatch):
    monkeypatch.setattr(
        "scripts.judge.served.run_judges", lambda recordings, judges: [row(15.0, TEXT)] * len(recordings)
    )
    answer = Answer("Typed.", None, Recording(Path("0.wav"), TEXT), pauses=11.0)
    (judged,) = judge([Answer("?", "no_speech", None), answer])
    assert judged["seconds"] == 4.0
    assert fault_of(judged) is None


def test_the_report_counts_errors_and_faults_and_names_each():
    answers = [Answer("One.", None, None), Answer("Two.", None, None), Answer("日本", "unsupported_text", None)]
    lines = report(answers, [row(4.0, TEXT), row(9.0, LONGER)]).splitlines()
    assert lines == [
        "3 texts: 2 with status 200, 1 errors",
        "of those with status 200: 1 runaway, 0 silent, 0 truncated",
        "word error rate, Moonshine: 10.0 %",
        "error unsupported_text: '日本'",
        f"runaway, 9.0 s: {TEXT!r} heard as {LONGER!r}",
    ]


def test_some_2000_different_texts_are_spoken():
    texts = mixed_texts()
    assert len(texts) == len(set(texts)) > 2000
    assert "Hello there, **this** is a *test*." in texts
