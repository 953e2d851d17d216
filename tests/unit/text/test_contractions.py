"""Colloquial contractions are read as words."""

import pytest

from server.text.frontend import spoken


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("Why d'you want to know? D’you?", "Why do you want to know? Do you?"),
        ("C'mon, s'pose we're s'posed to.", "Come on, suppose we're supposed to."),
        ("I might've known. You should've.", "I might have known. You should've."),
        ("Dad'll come if nobody'll mind, but I'll go.", "Dad will come if nobody will mind, but I'll go."),
        ("What're you doing? There're two; you're late.", "What are you doing? There are two; you're late."),
        ("Why'd you leave? Where'd she go? How'd it go?", "Why did you leave? Where did she go? How'd it go?"),
        ("A cup o' tea.", "A cup of tea."),
    ],
)
def test_a_contraction_that_is_misread_is_written_as_words(typed: str, text: str) -> None:
    assert spoken(typed, "english").text == text


@pytest.mark.parametrize(
    "typed",
    [
        "That'll do, who'll come and what'll it be.",
        "We're gonna stay, y'all, and they're outta here.",
        "It'd be nice if she'd've left.",
        "Give 'em hell and wait 'til Monday.",
        "The five o'clock train to O'Hare.",
        "At ten o' clock.",
    ],
)
def test_other_contractions_stay(typed: str) -> None:
    assert spoken(typed, "english").text == typed
