"""Which words a checkpoint's lexicon has, and with which phonemes."""

import gzip
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.train_pocket.derived_words import is_derived
from scripts.train_pocket.lexicon_file import inflections, lexicon_lines, misread_words, word_counts

FREQUENT = {"plan": "pl1an", "plane": "pl1En", "city": "s1Iti", "cite": "s1Yt", "fire": "f1Yxr", "fly": "fl1Y",
            "able": "1Ebxl", "read": "r1ed"}  # fmt: skip


def test_the_lexicon_has_the_rare_words_with_one_reading():
    certain = {
        "zephyrs": "zˈɛfəɹz", "gib": "ʤˈɪb", "waylay": "wˈAlˌA", "hooray": "hˈuɹˈA",
        "zephyr": "zˈɛfəɹ", "the": "ðə", "read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd"}, "Read": "ɹˈid", "Zoe": "zˈOi",
        "Celt": "kˈɛlt", "celt": "sˈɛlt", "cites": "sˈItiz", "don't": "dˈOnt", "user": "jˈuzəɹ", "up": "ˈʌp",
        "hey": "hˈA!", "Apple": "ˈæpᵊl", "apple": "ˈæpəl",
    }  # fmt: skip
    uncertain = {"cites": "sˈIts", "zoe": "zˈOi", "unlisted": "ʌnlˈɪstᵻd"}
    counts = word_counts(["The the, the. A zephyr's end."])
    assert lexicon_lines([certain, uncertain], {}, counts, most=1) == [
        "apple 1apxl", "waylay w1El2E", "zephyr z1efxr", "zephyrs z1efxrz", "zoe z1oi",
    ]  # fmt: skip


def test_the_lexicon_has_the_inflections_of_the_texts():
    counts = word_counts(["Hieroglyphs cover the xylophones."])
    inflected = {"hieroglyphs": "hˈIɹəɡlˌɪfs"}
    lines = lexicon_lines([{"cover": "kˈʌvəɹ"}], inflected, counts, most=1)
    assert lines == ["cover k1Vvxr", "hieroglyphs h1Yrxgl2Ifs"]


class Lexicon:
    """hibari-tts's lexicon, which takes every word in -s for an inflection."""

    golds = SimpleNamespace(
        d={"glyph": "ɡlˈɪf", "dove": {"NOUN": "dˈʌv", "VERB": "dˈOv"}, "lens": "lˈɛnz", "piu": "pˈI"}
    )

    def stem_s(self, word, tag, stress, context):
        return (self.golds.d[word[:-1]] + "s", 4) if word[:-1] in self.golds.d else (None, None)

    stem_ed = stem_ing = lambda self, word, tag, stress, context: (None, None)


def test_names_and_inflections_of_words_with_several_readings_are_not_taken():
    texts = ["Pius had glyphs, doves and a lens.", "Glyphs and pius. Pius, Pius!"]
    assert inflections(Lexicon(), texts) == {"glyphs": "ɡlˈɪfs"}


def test_words_that_are_made_of_frequent_ones_are_left_out():
    lexicon = {"plane": "plˈAn", "planes": "plˈAnz", "cartographer": "kɑɹtˈɑɡɹəfəɹ"}
    lines = lexicon_lines([lexicon], {}, Counter(plane=20), most=10)
    assert lines == ["cartographer kArt1Agrxfxr"]


def test_the_list_of_misread_words_has_a_word_and_its_phonemes_in_each_line(tmp_path):
    file = tmp_path / "misread_words.txt"
    file.write_text("# How they were found.\nrivers r1Ivxrz\nsour s1Wxr\n", encoding="utf-8")
    assert misread_words(file) == {"rivers": "r1Ivxrz", "sour": "s1Wxr"}


def test_the_included_checkpoint_has_the_misread_words():
    data = (Path(__file__).parents[3] / "models" / "pocket" / "lexicon.txt.gz").read_bytes()
    lines = set(gzip.decompress(data).decode().splitlines())
    assert {f"{word} {phonemes}" for word, phonemes in misread_words().items()} <= lines


@pytest.mark.parametrize(
    ("word", "phonemes", "expected"),
    [
        ("planes", "pl1Enz", True),
        ("planning", "pl1anIN", True),
        ("citing", "s1YtIN", True),
        ("cities", "s1Itiz", True),
        ("flyable", "fl1Yxbxl", True),
        ("replan", "ripl1an", True),
        ("firefly", "f1Yxrfl2Y", True),
        ("planetary", "pl1anxt2eri", False),
        ("citation", "sYt1ESxn", False),
        ("flies", "fl1Yz", True),
        ("flying", "flI1IN", False),
        ("xylophones", "z1Ylxf2onz", False),
    ],
)
def test_a_word_is_derived_if_it_is_read_like_the_words_it_is_made_of(word, phonemes, expected):
    assert is_derived(word, phonemes, FREQUENT, FREQUENT) == expected


def test_the_included_checkpoint_stays_below_60_megabytes():
    folder = Path(__file__).parents[3] / "models" / "pocket"
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 60e6
