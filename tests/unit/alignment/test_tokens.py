"""The words of a text and their tokens."""

from __future__ import annotations

import numpy as np
import pytest

from server.alignment.tokens import VOCABULARY, tokens_of, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello there.", ["Hello", "there."]),
        ('"Well," she said, "no!"', ['"Well,"', "she", "said,", '"no!"']),
        ("One\n\ntwo\tthree", ["One", "two", "three"]),
        ("wait — here", ["wait", "here"]),
        ("word—word", ["word—", "word"]),
        ("Well... yes… maybe", ["Well...", "yes…", "maybe"]),
        ("twenty-one o'clock", ["twenty-one", "o'clock"]),
        ("1984 was 50 %", ["1984", "was", "50"]),
        ("", []),
        (" … — ! ", []),
    ],
)
def test_words_keep_their_punctuation_and_marks_alone_are_no_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_there_is_a_boundary_around_every_word() -> None:
    tokens = tokens_of(["Hello,", "you."])
    assert tokens.words.tolist() == [-1, 0, 0, 0, 0, 0, -1, 1, 1, 1, -1]
    assert len(tokens.ids) == len(tokens.words)


def test_accents_and_curly_apostrophes_do_not_change_the_tokens() -> None:
    assert np.array_equal(tokens_of(["café", "don’t"]).ids, tokens_of(["cafe", "don't"]).ids)


@pytest.mark.parametrize("word", ["日本", "ẞ", "½", "'90s", "-5", "a" * 100, "ﬁ"])
def test_every_word_has_tokens_that_the_network_knows(word: str) -> None:
    tokens = tokens_of([word])
    assert (tokens.words == 0).any()
    assert ((tokens.ids >= 0) & (tokens.ids < VOCABULARY)).all()
