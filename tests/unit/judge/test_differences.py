"""Errors in an alignment of what was expected with what was heard."""

from typing import NamedTuple

import pytest

from scripts.judge.differences import count_errors, differences
from scripts.judge.homophones import Pronunciations


class Aligned(NamedTuple):
    type: str
    ref_start_idx: int
    ref_end_idx: int
    hyp_start_idx: int
    hyp_end_idx: int


@pytest.mark.parametrize(
    ("expected", "actual", "chunks", "errors"),
    [
        ("not any more", "not anymore", [("equal", 0, 1, 0, 1), ("substitute", 1, 2, 1, 2), ("delete", 2, 3, 2, 2)], 0),
        ("not any more", "not many", [("equal", 0, 1, 0, 1), ("substitute", 1, 2, 1, 2), ("delete", 2, 3, 2, 2)], 2),
        ("good", "good good", [("insert", 0, 0, 0, 1), ("equal", 0, 1, 1, 2)], 1),
        ("a b c", "x b", [("substitute", 0, 1, 0, 1), ("equal", 1, 2, 1, 2), ("delete", 2, 3, 2, 2)], 2),
        ("a b", "a b", [("equal", 0, 2, 0, 2)], 0),
    ],
)
def test_words_that_are_only_joined_or_split_are_right(expected, actual, chunks, errors):
    aligned = [Aligned(*each) for each in chunks]
    assert count_errors(differences(aligned, expected.split(), actual.split(), never)) == errors


def never(one, other):
    return False


DICTIONARY = [
    "you Y UW",
    "you're Y UH R",
    "you're(2) Y AO R",
    "your Y AO R",
    "are AA R",
    "2 T UW",
    "two T UW",
    "to T UW",
    "to(2) T AH",
    "late L EY T",
    "let L EH T",
    "lead L EH D",
    "led L EH D",
]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("you are", "your", True),
        ("2", "to", True),
        ("to your", "2 you are", True),
        ("late", "let", False),
        ("lead", "led", False),
        ("late", "unknown", False),
        ("unknown", "unheard", False),
        ("", "to", False),
        ("to to to to to to", "2 2 2 2 2 2", False),
    ],
)
def test_words_that_sound_alike_are_right(one, other, alike):
    known = Pronunciations(DICTIONARY)
    assert known.alike(one.split(), other.split()) == alike
    chunks = [Aligned("substitute", 0, len(one.split()), 0, len(other.split()))]
    wrong = list(differences(chunks, one.split(), other.split(), known.alike))
    assert wrong == ([] if alike else chunks)
