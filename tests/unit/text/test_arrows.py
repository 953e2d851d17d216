"""Arrows between words, numbers and menus, apart from those of program code."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Plan A -> Plan B", "plan a to plan b"),
        ("Step 1 -> Step 2", "step one to step two"),
        ("idea -> prototype -> launch", "idea to prototype to launch"),
        ("A --> B", "a to b"),
        ("Usage went 10% -> 20%.", "usage went ten percent to twenty percent"),
        ("The fee: $5 -> $10", "the fee five to ten dollars"),
    ],
)
def test_an_arrow_between_words_is_to(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("def f(x) -> int:", "def f of x arrow int"),
        ("x -> y", "x arrow y"),
        ("lambda x -> x + 1", "lambda x arrow x plus one"),
    ],
)
def test_an_arrow_of_program_code_is_an_arrow(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize("arrow", [">", "->", "→"])
def test_a_path_through_menus_is_a_list(arrow: str) -> None:
    typed = f"Go to Settings {arrow} Wi-Fi {arrow} Advanced."
    assert spoken(typed, "english").text == "Go to Settings, Wi-Fi, Advanced."
    assert spoken(typed.removeprefix("Go to "), "english").text == "Settings, Wi-Fi, Advanced."


def test_a_subtitle_has_the_times_of_its_beginning_and_end() -> None:
    said = words(spoken("00:01:02,500 --> 00:01:05,000", "english").text)
    assert said == "one minute and two point five seconds to one minute and five seconds"
