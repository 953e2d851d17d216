"""Text in deltas: nothing is said too early, and all of it together is what the whole text says."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.text.frontend import STEPS, spoken
from server.text.live import LiveFrontend

from .readings import CLASSES, items

SENTENCES = [
    "The ferry leaves the harbor at noon and comes back before dark.",
    "Dr. Smith paid $3.50 at 5 p.m. on Jan. 3, in cash.",
    "I'd rate it 8/10, but she gave it a solid and quite well deserved 9/10 in 2021.",
    "NASA and the FBI agree that you should never open http://example.com/a_b on a friday in the office.",
    "He said, 'Stop. Now!' and ran to the U.S. embassy in the middle of town.",
    "Henry VIII had six wives, and World War II ended in 1945.",
    "We won 3-2 in the end; it took about 90 minutes of play and then some more time.",
    'She said, "You should taste the soup before you add any more salt," and smiled at 7:30am.',
    "Did you look at www.example.com yesterday?",
    "It is about 2.5 km, i.e. a short walk along the river with the dogs!",
    "Set the number of attempts to 5 in the config file and start it again.",
    'Take a breath. <break time="500ms"/> Now continue.',
    "She said, “I only thought—” “You thought wrong,” he said... but then he laughed. It was late...",
]
prose = st.lists(
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=3
).map("\n\n".join)
LOOSE = {"1. Alpha\n\n2. Beta", "- one\n\n- two\n\n- three", "Pros:\n+ cheap\n+ fast\nCons:\n- loud"}
"""Lists whose marks change, or with empty lines: live, an item does not know whether its list goes on."""


def live(text: str, sizes: list[int], language: str = "english", steps=STEPS) -> list[str]:
    front, said, start, turn = LiveFrontend(language, steps), [], 0, 0
    while start < len(text):
        size = sizes[turn % len(sizes)]
        said.append(front.feed(text[start : start + size]).text)
        start, turn = start + size, turn + 1
    return [*said, front.finish().text]


@settings(max_examples=60)
@given(prose, st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_prose_is_said_as_the_whole_text_is(text, sizes):
    assert "".join(live(text, sizes)) == spoken(text, "english").text


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("sizes", [[1], [1, 3, 7], [40]], ids=str)
def test_items_are_said_as_the_whole_text_is(name, sizes):
    for item in items(name):
        if item.typed not in LOOSE:
            assert "".join(live(item.typed, sizes)) == spoken(item.typed, "english").text


@settings(max_examples=60)
@given(st.text(max_size=300), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_any_deltas_can_be_said(text, sizes):
    live(text, sizes)
    live(text, sizes, "german")
    live(text, sizes, "english", ("unicode",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I am not sure about this 5'10\", 172 lbs., 41 y/o male, no hx of asthma.", "male, no history of asthma."),
        ("Read it again. IT was down all day Baby Leo arrived this morning, 7 lb 4 oz", "Leo arrived this morning,"),
    ],
)
def test_no_word_is_lost_when_later_words_change_what_was_said(text, words):
    assert words in "".join(live(text, [1]))


def test_a_sentence_is_said_before_the_next_one_ends():
    front = LiveFrontend("english")
    assert front.feed("It costs $5 at St. John's. ").text == ""
    assert front.feed("The").text == "It costs five dollars at Saint John's."
    assert front.feed(" rest").text == ""
    assert front.finish().text == " The rest."


def test_plain_words_are_said_before_their_sentence_ends():
    front = LiveFrontend("english")
    said = front.feed("The ferry leaves the harbor at noon and ").text
    assert said.startswith("The ferry leaves the")
    assert said + front.finish().text == "The ferry leaves the harbor at noon and."


@pytest.mark.parametrize("mark", ["**", "`", "*", "~~"])
def test_what_stands_in_open_markup_waits(mark):
    front = LiveFrontend("english")
    said = front.feed(f"This is {mark}important. And this is too, as all of us know{mark} ").text
    assert said == ""
    assert front.finish().text.startswith("This is important. And this is too")


def test_list_items_are_said_one_by_one():
    front = LiveFrontend("english")
    assert front.feed("1. Mix the dough\n2. Ba").text == "One. Mix the dough."
    assert front.feed("ke it\n3.").text == ""
    assert front.feed(" Eat").text == " Two. Bake it."
    assert front.finish().text == " Three. Eat."


@pytest.mark.parametrize(
    "held",
    [
        "```\nx = 1\n\ny = 2\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        '<speak>One. Two <break time="1s"/> three four five. Six ',
    ],
)
def test_what_cannot_be_read_in_part_is_held_back(held):
    front = LiveFrontend("english")
    assert front.feed(held).text == ""
    assert front.finish().text


@pytest.mark.parametrize(
    "unit", ["word ", "Word. ", "- item\n", "*open. ", "[a. b ", "x\n", "`a. B ", "1. a\n", "| a ", "'a. B "]
)
def test_the_work_grows_with_the_text_and_not_faster(unit):
    def calls(size: int) -> int:
        count = 0

        def profile(_frame, event, _argument):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            live((unit * size)[:size], [50])
        finally:
            sys.setprofile(None)
        return count

    short, long = calls(10_000), calls(20_000)
    assert long < 2.5 * short + 5000


def test_quoted_words_wait_for_their_closing_quote():
    text = "We call it 'the long and winding road to the sea in the north' here. Yes."
    assert "".join(live(text, [3])) == spoken(text, "english").text


def test_pauses_come_with_their_piece():
    front = LiveFrontend("english")
    first = front.feed("Wait. [pause 1s] Then go on with the others. No")
    assert [pause.seconds for pause in first.pauses] == [1.0]
    assert first.text[: first.pauses[0].position] == "Wait. "


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Hello there.\n\n[pause 2s]\n\nNext one.", [2.0]),
        ("[pause 1s]\n\n- one\n- two\n\n<break time='2s'/>", [1.0, 2.0]),
        ("# Title\n\n[pause 0.5]\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[pause 3s]", [0.5, 3.0]),
    ],
)
def test_pauses_between_paragraphs_are_those_of_the_whole_text(text, seconds, size):
    front = LiveFrontend("english")
    parts = [front.feed(text[start : start + size]) for start in range(0, len(text), size)] + [front.finish()]
    assert [pause.seconds for part in parts for pause in part.pauses] == seconds
    assert "".join(part.text for part in parts).split() == spoken(text, "english").text.split()


@pytest.mark.parametrize(
    ("text", "language"),
    [("Es ist 5 Uhr. Das kostet 3,50 €. Gut so!", "german"), ("你好。今天天气很好！再见", "chinese")],
)
def test_other_languages_are_said_sentence_by_sentence(text, language):
    pieces = live(text, [1], language)
    assert "".join(pieces) == spoken(text, language).text
    assert sum(map(bool, pieces)) >= 3
