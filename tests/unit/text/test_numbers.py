"""Every number is said: none is taken for something else, whatever its digits are."""

import pytest

from server.text.english import numbers
from server.text.frontend import spoken

from .readings import words


def said(text: str) -> str:
    return words(spoken(text, "english").text)


@pytest.mark.parametrize("hundred", [0, 100, 300, 800])
def test_counts_are_said(hundred: int) -> None:
    for number in range(hundred, hundred + 100):
        assert said(f"I have {number} cats.") == words(f"I have {numbers.cardinal(number)} cats.")


def test_amounts_are_said() -> None:
    for cents in range(2, 100):
        assert said(f"It costs $4.{cents:02}.") == words(f"It costs four dollars and {numbers.cardinal(cents)} cents.")


def test_decimals_are_said() -> None:
    for part in range(100):
        digits = numbers.digits(f"{part:02}")
        assert said(f"It is 8.{part:02} now.") == words(f"It is eight point {digits} now.")


def test_times_are_said() -> None:
    for minute in range(1, 60):
        assert said(f"Come at 8:{minute:02} pm.") == words(f"Come at eight {numbers.pair(minute)} pm.")


def test_percentages_and_years_are_said() -> None:
    for number in range(100):
        year = numbers.year(1900 + number)
        assert said(f"In {1900 + number}, {number}%.") == words(f"In {year}, {numbers.cardinal(number)} percent.")
