"""The step that removes quotation marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.frontend import spoken
from server.text.live import LiveFrontend


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("“I’ll go,” she said, “if I’m asked.”", "I'll go, she said, if I'm asked."),
        ("They call it ‘the quiet room’ for a reason.", "They call it the quiet room for a reason."),
        ("«Where?» asked Tom. „Here.“", "Where? asked Tom. Here."),
        ('He said " hello " to me.', "He said hello to me."),
        ('He said,"I am."', "He said, I am."),
        ('"Is it late?" "No."\n\n"Good."', "Is it late? No.\n\nGood."),
        ("It is 5'10\" tall and isn't mine.", "It is five foot ten tall and isn't mine."),
    ],
)
def test_quotation_marks_are_not_spoken(typed: str, text: str) -> None:
    assert spoken(typed, "english").text == text


def test_an_article_that_begins_a_quotation_in_a_sentence_does_not_become_a_letter() -> None:
    assert spoken('"A dog," he said. He said, "A dog barked."', "english").text == (
        "A dog, he said. He said, a dog barked."
    )


def test_a_pause_stays_at_its_place() -> None:
    text, _, pauses = spoken('"One." [pause 1s] "Two."', "english")
    assert [text[: pause.position] for pause in pauses] == ["One. "]


def test_marks_are_kept_without_the_step() -> None:
    typed = '"Go," he said.'
    assert spoken(typed, "english", {"unicode", "markup", "emoji", "normalize"}) == (typed, (), ())


@given(st.text(alphabet='ab"A .,\n'))
def test_no_mark_remains(text: str) -> None:
    assert '"' not in spoken(text, "english").text


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_live_text_has_no_marks_either(size: int) -> None:
    text = 'She asked, "Are you sure that you want to go out in the rain tonight?" and "I\'m not," he said to her.'
    frontend = LiveFrontend("english")
    parts = [frontend.feed(text[start : start + size]).text for start in range(0, len(text), size)]
    assert "".join([*parts, frontend.finish().text]) == spoken(text, "english").text
