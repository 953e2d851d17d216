"""Text added in pieces has the same tokens as the complete text."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.live_text import LiveText
from engine.prompt.tokenizer import TextTokenizer

TEXTS = [
    "It's 10:30, and we'll be late -- aren't we?  \n\n Hurry!",
    "Hello world, this is a test of the speech server.",
    "其实我真的有发现，我是一个特别善于观察别人情绪的人。",
    "  leading,\ttabs\r\nand    runs of   spaces   ",
    "E\u0301. x\u0301. \u1025\u102e a\u0301\u0323b",
    "नमस्ते दुनिया, कैसे हो?",
    "cafe\u0301 is open, nai\u0308ve as ever",
    "I'll say: 'tis 3.14!!! ...\n\n\nDone",
]


@pytest.fixture(scope="module")
def tokenizer(checkpoints):
    return TextTokenizer(checkpoints["0b6-custom_voice"])


def encode_pieces(tokenizer, pieces):
    live = LiveText(tokenizer)
    ids = []
    for number, piece in enumerate(pieces, start=1):
        ids += tokenizer.encode(live.add(piece, last=number == len(pieces)))
    return ids


@pytest.mark.parametrize("text", TEXTS)
def test_character_by_character_gives_the_same_tokens(tokenizer, text):
    assert encode_pieces(tokenizer, list(text)) == tokenizer.encode(text)


@settings(max_examples=300)
@given(text=st.text(max_size=40), cuts=st.lists(st.integers(0, 40), max_size=8))
def test_any_pieces_give_the_same_tokens(tokenizer, text, cuts):
    bounds = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(bounds)] or [""]
    assert encode_pieces(tokenizer, pieces) == tokenizer.encode(text)


def test_a_word_is_held_back_until_it_is_complete(tokenizer):
    live = LiveText(tokenizer)
    assert [live.add("Hel"), live.add("lo"), live.add(" wor"), live.add("ld"), live.add("", last=True)] == [
        "",
        "",
        "Hello",
        "",
        " world",
    ]


@pytest.mark.parametrize("text", ["E\u0301.", "x\u0301. ", "नमस्ते ", "\u1025\u102e a"])
def test_text_after_a_word_with_marks_completes_it(tokenizer, text):
    assert LiveText(tokenizer).add(text)
