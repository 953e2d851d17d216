"""States with a full stop."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Hartford, Conn. Police said so.", "hartford connecticut police said so"),
        ("Waco, Tex., Ala., Ga., & Fla.", "waco texas alabama georgia and florida"),
        (
            "Rep. Lee (D-Calif.) and Sen. Roe (R-Tex.)",
            "representative lee democrat from california and senator roe republican from texas",
        ),
        ("Washington, D.C. 20500", "washington d c two zero five zero zero"),
        ("I felt ill, Va. called.", "i felt ill va called"),
        ("It made me ill. Mo left.", "it made me ill mo left"),
    ],
)
def test_a_state_is_a_word_after_a_place_and_where_its_letters_are_no_word(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
