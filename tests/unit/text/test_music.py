"""Chords, keys and catalogs of music."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Capo 2: G D Em C", "capo two g d e minor c"),
        ("I-V-vi-IV in Bb", "one five six four in b flat"),
        ("a ii–V–I", "a two five one"),
        ("120 BPM, key of F#m", "one hundred twenty beats per minute key of f sharp minor"),
        ("K. 525, BWV 1007", "k five twenty five b w v ten oh seven"),
        ("Track 7 (feat. Jay-Z)", "track seven featuring jay z"),
    ],
)
def test_notation_of_music_is_words(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("A B C D E F", "a b c d e f"),
        ("I-I-I don't know", "i i i dont know"),
        ("Rows A7 B7 C7", "rows a seven b seven c seven"),
        ("He is in B now.", "he is in b now"),
    ],
)
def test_letters_that_are_no_music_are_unchanged(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
