"""Words with their times, as they are kept for outcomes."""

from __future__ import annotations

from server.alignment.timed_words import TimedWords, WordTime
from server.telemetry.outcomes import MAX_WORDS, Outcomes
from server.telemetry.record import RequestRecord


def test_words_of_several_pieces_come_back_in_order() -> None:
    words = TimedWords()
    words.extend([WordTime("Hello,", 0.1, 0.55), WordTime("you.", 0.55, 0.9004)])
    words.extend([])
    words.extend([WordTime("Bye!", 1.25, 1.5)])
    assert len(words) == 3
    assert words.fields() == [
        {"word": "Hello,", "start": 0.1, "end": 0.55},
        {"word": "you.", "start": 0.55, "end": 0.9},
        {"word": "Bye!", "start": 1.25, "end": 1.5},
    ]


def ended(outcomes: Outcomes, name: str, words: int) -> RequestRecord:
    record = RequestRecord(name, status=200, times_words=True)
    record.add_words([WordTime("word", 0.0, 0.1)] * words)
    outcomes.ended(record)
    return record


def test_the_oldest_word_times_are_dropped_when_there_are_too_many() -> None:
    outcomes = Outcomes(10)
    first, second = ended(outcomes, "first", MAX_WORDS // 2), ended(outcomes, "second", MAX_WORDS // 2)
    assert first.words is not None
    third = ended(outcomes, "third", 1)
    assert outcomes.find("first") is first
    assert first.word_fields() == {}
    assert [len(record.words or ()) for record in (second, third)] == [MAX_WORDS // 2, 1]


def test_word_times_of_evicted_requests_do_not_count() -> None:
    outcomes = Outcomes(1)
    for number in range(4):
        last = ended(outcomes, f"{number}", MAX_WORDS // 2)
    assert last.words is not None
