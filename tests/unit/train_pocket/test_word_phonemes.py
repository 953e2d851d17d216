"""Words of training texts are written as phonemes, in a notation that the tokenizer has tokens for."""

import numpy as np
import pytest

from scripts.train_pocket.word_phonemes import notation, with_phonemes, word_notations


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("The zephyr blew.", [("The", "ðə"), ("zephyr", "zˈɛfəɹ"), ("blew", "blˈu"), (".", ".")], "Dx z1efxr bl1u"),
        ("a zephyr's end", [("a", "ɐ"), ("zephyr's", "zˈɛfəɹz"), ("end", "ˈɛnd")], "z1efxr 1end"),
        ("James's fox's", [("James's", "ʤˈAmzᵻz"), ("fox's", "fˈɑksᵻz")], "j1Emz f1Aks"),
        ('He said "Lovely!"', [("He", "hi"), ("said", "sˈɛd"), ('"Lovely!"', "“lˈʌvli!”")], "s1ed l1Vvli"),
        ("the well-known one", [("the", "ðə"), ("well-known", "wˌɛlnˈOn"), ("one", "wˈʌn")], "Dx - - w1Vn"),
        ("It isn't three.", [("It", "ɪt"), ("isn't", "ˈɪzᵊnt"), ("three", "θɹˈi")], "- Tr1i"),
        ("two cats", [("2", "tˈu"), ("cats", "kˈæts")], "- k1ats"),
    ],
)
def test_each_word_has_its_phonemes_or_a_placeholder(text, tokens, expected):
    assert word_notations(text, tokens) == expected


def test_a_symbol_that_is_not_of_a_word_has_no_notation():
    assert notation("zˈɛfəɹ") == "z1efxr"
    assert notation("wˈʌn tˈu") is None
    assert notation("") is None


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "The zephyr's well-known end."), (1.0, "{Dx {z1efxr's well-known {1end.")],
)
def test_a_share_of_the_words_is_written_as_phonemes(share, expected):
    text, notations = "The zephyr's well-known end.", "Dx z1efxr - - 1end"
    assert with_phonemes(text, notations, share, np.random.default_rng(0)) == expected


def test_a_text_whose_words_changed_stays_as_it_is():
    assert with_phonemes("one two three", "w1Vn t1u", 1.0, np.random.default_rng(0)) == "one two three"
