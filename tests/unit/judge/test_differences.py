"""Errors in an alignment of what was expected with what was heard."""

from typing import NamedTuple

import pytest

from scripts.judge.differences import count_errors


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
    assert count_errors([Aligned(*each) for each in chunks], expected.split(), actual.split()) == errors
