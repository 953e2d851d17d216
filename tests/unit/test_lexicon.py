"""lexicon.txt.gz: words that the talker reads as phonemes."""

import gzip
import shutil

import pytest

from engine.errors import CheckpointError
from engine.prompt.lexicon import LEXICON_FILE
from engine.prompt.live_text import LiveText
from engine.prompt.tokenizer import TextTokenizer


@pytest.fixture
def folder(checkpoints, tmp_path):
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(checkpoints["pocket"] / name, tmp_path / name)
    return tmp_path


def tokenizers(folder, lexicon):
    """Return tokenizers without and with the lexicon."""
    without = TextTokenizer(folder)
    (folder / LEXICON_FILE).write_bytes(gzip.compress(lexicon.encode()))
    return without, TextTokenizer(folder)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A zephyr blew.", "A {z1efxr blew."),
        ("Zephyr! ZEPHYR's", "{z1efxr! {z1efxr's"),
        ("a zephyr-like (zephyr)", "a {z1efxr-like ({z1efxr)"),
        ("zephyrs azephyr zephyr_1", "zephyrs azephyr {z1efxr_1"),
        ("O'zephyr 'zephyr' 'tzephyr", "O'{z1efxr '{z1efxr' 'tzephyr"),
        ("the naïve one", "the {nY1iv one"),
        ("{zephyr} and {one}", "({z1efxr} and (one}"),
        ("the nai\u0308ve one", "the {nY1iv one"),
    ],
)
def test_words_of_the_lexicon_are_read_as_phonemes(folder, text, read):
    without, with_lexicon = tokenizers(folder, "ephyr 1efxr\nnaïve nY1iv\nzephyr z1efxr\n")
    assert with_lexicon.encode(text) == without.encode(read)


def test_words_with_several_readings_are_read_by_their_context(folder):
    without, with_lexicon = tokenizers(folder, "read/past r1ed\nwind/turn w1Ynd\nzephyr z1efxr\n")
    text = "assistant\nWind the clock. I have read that the zephyr is a wind. WIND the clock, and read on."
    assert with_lexicon.encode(text) == without.encode(
        "assistant\n{w1Ynd the clock. I have {r1ed that the {z1efxr is a wind. {w1Ynd the clock, and read on."
    )


def test_texts_that_are_tokenized_together_are_read_like_each_alone(folder):
    without, tokenizer = tokenizers(folder, "read/past r1ed\nwind/turn w1Ynd\nzephyr z1efxr\n")
    texts = ["A zephyr.", "I have read it.", "read", "Wind the clock. {zephyr}"]
    alone = [tokenizer.encode(text) for text in texts]
    tokenizer.encode_ahead(texts)
    assert [tokenizer.encode(text) for text in texts] == alone
    assert tokenizer.encode("read", before="I have ") == without.encode("{r1ed"), "the text before matters"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 9])
def test_text_that_arrives_in_pieces_is_read_like_the_whole_text(folder, size):
    lexicon = "anic 1anIk\ndon d1An\nephyr 1efxr\nnaïve nY1iv\nween w1in\nzephyr z1efxr\nzephyrs z1efxrz\n"
    _, tokenizer = tokenizers(folder, lexicon)
    text = "'Tween Zephyrs, a zephyr's nai\u0308ve 'tween don't zephyr-like O'zephyr 'zephyr Qur'anic; {zephyr} {one"
    live = LiveText(tokenizer)
    pieces = [live.add(text[start : start + size]) for start in range(0, len(text), size)] + [live.add("", last=True)]
    assert [token for piece in pieces for token in tokenizer.encode(piece)] == tokenizer.encode(text)


def test_readings_are_found_in_text_that_arrives_in_pieces(folder):
    """Words before a piece count, words that arrive later do not."""
    without, tokenizer = tokenizers(folder, "read/past r1ed\nwind/turn w1Ynd\n")
    live, ids = LiveText(tokenizer), []
    for piece in ("They have ", "read it. Try to ", "wind the clock. Wind ", "the clock."):
        before = live.returned
        ids += tokenizer.encode(live.add(piece, last=piece == "the clock."), before=before)
    assert ids == without.encode("They have {r1ed it. Try to {w1Ynd the clock. Wind the clock.")


@pytest.mark.parametrize("text", ["Close ", "Use it. ", "Live music! "])
def test_live_text_may_begin_with_a_word_that_has_several_readings(folder, text):
    _, tokenizer = tokenizers(folder, "close/near kl1os\nlive/now l1Yv\nuse/noun y1us\n")
    assert LiveText(tokenizer).add(text + "a") == text.rstrip()


def test_an_entry_of_the_word_alone_counts_where_no_rule_decides(folder):
    without, tokenizer = tokenizers(folder, "close kl1oz\nclose/near kl1os\n")
    assert tokenizer.encode("Stay close to me and close it.") == without.encode("Stay {kl1os to me and {kl1oz it.")


def test_an_unknown_reading_is_an_error(folder):
    with pytest.raises(CheckpointError, match=r"line 1: engine\.prompt\.heteronyms has no reading 'wind/trun'"):
        tokenizers(folder, "wind/trun w1Ynd\n")


@pytest.mark.parametrize(
    "line",
    [
        "zephyr/ z1efxr",
        "zephyr/One z1efxr",
        "zephyr",
        "zephyr ",
        " z1efxr",
        "zephyr z1 efxr",
        "Zephyr z1efxr",
        "up V1p",
    ],
)
def test_a_line_that_is_not_a_word_and_its_phonemes_is_an_error(folder, line):
    with pytest.raises(CheckpointError, match="line 2: must be a word of at least 3 lower-case letters"):
        tokenizers(folder, f"hello hxl1o\n{line}\n")


@pytest.mark.parametrize("second", ["hello hxl1o", "hello h2xlo", "apple 1apxl"])
def test_words_that_are_not_sorted_and_different_are_an_error(folder, second):
    with pytest.raises(CheckpointError, match="line 2: words must be sorted and different, found"):
        tokenizers(folder, f"hello hxl1o\n{second}\n")


def test_a_word_of_every_prompt_cannot_have_an_entry(folder):
    with pytest.raises(CheckpointError, match="line 1: 'assistant' is part of every prompt"):
        tokenizers(folder, "assistant xs1Istxnt\n")


def test_a_lexicon_without_words_is_an_error(folder):
    with pytest.raises(CheckpointError, match="has no words"):
        tokenizers(folder, "")


def test_a_file_that_unpacks_to_more_than_the_limit_is_an_error(folder, monkeypatch):
    monkeypatch.setattr("engine.prompt.lexicon.MAX_TEXT_BYTES", 1 << 20)
    with pytest.raises(CheckpointError, match="must have at most 1 MiB of text"):
        tokenizers(folder, "a" * ((1 << 20) + 1))


@pytest.mark.parametrize(
    "data",
    [b"hello hxl1o\n", gzip.compress(b"hello hxl1o\n")[:-9], gzip.compress(b"\xff x")],
    ids=["plain", "truncated", "not UTF-8"],
)
def test_a_file_that_is_not_gzipped_text_is_an_error(folder, data):
    (folder / LEXICON_FILE).write_bytes(data)
    with pytest.raises(CheckpointError, match="must be gzipped UTF-8 text"):
        TextTokenizer(folder)
