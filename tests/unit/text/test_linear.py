"""The cost of unusual text is linear in its length. The tests count calls and measure no time."""

from __future__ import annotations

import sys

import pytest

from server.text.english.normalize import sentences
from server.text.frontend import spoken

UNITS = [
    *"*_<[]()`#|&!\\~>-+=/@.:,;$%^{}\"'0aA1é🎉",
    *(
        "*a",
        "**a**",
        "[a](",
        "![",
        "<a ",
        "<b>",
        "<speak>",
        "<!--",
        "a<!-- ",
        "&amp;",
        "1,",
        "1.",
        "a.",
        "a@b.",
        "A.",
        "AB ",
        "http://",
        "a_",
        "aB",
    ),
    *(
        "f(",
        "$1-",
        "5 km ",
        "1:",
        "Dr. ",
        "- ",
        "1. ",
        "# ",
        "> ",
        "|a|",
        "\n\n",
        "'a' ",
        "[pause 1s]",
        "``",
        "^2",
        "½",
        "((((1",
    ),
    *(
        "$a",
        "$a$",
        "$$",
        "$$\n",
        "\\(",
        "\\[\n",
        "$\\frac{$",
        "\\frac",
        "$x^{",
        "sin(",
        "|a|b",
        "x^(",
        "1+...+",
        "1x2y_",
        "<ab ",
        "<ab-cd> ",
        "<@U12|",
        "⭐ ",
        "★☆",
        "⌘",
        "1. e4 Nf3 ",
        "2001:",
        "5' ",
        "(ii) ",
        "II, ",
        "250g/9oz ",
        ">=1.2,",
        rf"\({'a+' * 40}a\) ",
    ),
]
SIZE = 100_000


def calls(text: str) -> int:
    """Python calls of speaking ``text``: work in loops of our own shows here."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        spoken(text, "english")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("unit", UNITS)
def test_accepts_a_hundred_kilobytes_of_any_text(unit):
    assert isinstance(spoken((unit * SIZE)[:SIZE], "english").text, str)


@pytest.mark.parametrize("unit", UNITS)
def test_twice_the_text_takes_at_most_about_twice_the_calls(unit):
    short, long = (calls((unit * size)[:size]) for size in (10_000, 20_000))
    assert long < 2.5 * short + 2000


def test_no_rule_sees_more_than_a_short_piece():
    for text in ("word " * 30_000, "x" * 150_000, "1," * 75_000):
        assert all(len(piece) <= 1000 for piece in sentences(text))
