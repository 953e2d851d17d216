"""Differences of spelling that do not count as word errors."""

import pytest

from scripts.judge.spelling import join_letters, same_sounds


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("the h t t p server", "the http server"),
        ("press f 5", "press f5"),
        ("u s a", "usa"),
        ("plan b is better than plan a", "plan b is better than plan a"),
    ],
)
def test_letters_that_are_spelled_out_are_one_word(text, joined):
    assert join_letters(text) == joined


def test_texts_that_differ_only_in_spaces_sound_the_same():
    assert same_sounds("good bye", "goodbye")
    assert not same_sounds("good by", "goodbye")
