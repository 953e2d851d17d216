"""Notation beside units."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("3+ yrs exp w/ SQL", "three plus years experience with s q l"),
        ("50+ yr. old, 6'+ tall", "fifty plus year old six feet plus tall"),
        ("RAM 6.2/16 GB", "ram six point two of sixteen gigabytes"),
        ("4,200/km²", "four thousand two hundred per square kilometer"),
        ("110 V, 15 A max.", "one hundred ten volts fifteen amps max"),
        ("Grade 3 A, Section 2 A.", "grade three a section two a"),
        ("29.92 inHg", "twenty nine point nine two inches of mercury"),
        ("225/45R17 tires, 5W-30 oil", "two twenty five forty five r seventeen tires five w thirty oil"),
    ],
)
def test_notation_beside_units_is_words(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
