"""Points of the compass in the names of regions, in addresses and of winds."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("N. Korea fires two missiles", "north korea fires two missiles"),
        ("She moved to S. Carolina.", "she moved to south carolina"),
        ("W Virginia governor resigns", "west virginia governor resigns"),
        ("The talks in S. Sudan failed.", "the talks in south sudan failed"),
        ("Winds NNW at 10 mph.", "winds north northwest at ten miles per hour"),
        ("Turn onto I-95 N there.", "turn onto i ninety five north there"),
        ("N. Main St. & W. Elm Ave.", "north main street and west elm avenue"),
        ("She lives at 42 W. 5th St. now.", "she lives at forty two west fifth street now"),
    ],
)
def test_a_direction_is_a_word(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Vitamin E Africa trial", "vitamin e africa trial"),
        ("Harry S. Truman was president.", "harry s truman was president"),
        ("J. W. Virginia wrote it.", "j w virginia wrote it"),
        ("Booker T. Washington Ave.", "booker t washington avenue"),
        ("Vitamin E Street", "vitamin e street"),
        ("N. Smith wrote it.", "n smith wrote it"),
    ],
)
def test_another_letter_stays_a_letter(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
