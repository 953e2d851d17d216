"""Letters and abbreviations of weekdays."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "Office hrs: M-Th 8-4:30, F 8-noon",
            "office hours monday to thursday eight to four thirty friday eight to noon",
        ),
        ("9a-5p M-F", "nine am to five pm monday to friday"),
        (
            "MWF 9:05–9:55, TTh 1-2:15",
            "monday wednesday friday nine oh five to nine fifty five tuesday thursday one to two fifteen",
        ),
        ("It runs M–Sa.", "it runs monday to saturday"),
        ("Tu. 2-3p", "tuesday two to three pm"),
        ("Open M-F 9-5.", "open monday to friday nine to five"),
        ("A-F and W-F", "a to f and w to f"),
    ],
)
def test_letters_are_weekdays_beside_times(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
