"""Which language a text is read in."""

import pytest

from server.text.language import text_language

TEN = ("chinese", "english", "german", "french", "spanish", "italian", "portuguese", "japanese", "korean", "russian")


def test_a_language_that_is_asked_for_is_used():
    assert text_language(" French ", "the house is here", TEN) == "french"


def test_auto_is_the_only_language_of_the_checkpoint():
    assert text_language("auto", "Das Haus ist da.", ("english",)) == "english"


@pytest.mark.parametrize(
    "text", ["It costs $5.", "Please call me at 5 p.m.", "No, as of 3/4 you have 5 left.", "Is this the 2nd of them?"]
)
def test_english_is_recognized_by_its_function_words(text):
    assert text_language("auto", text, TEN) == "english"


@pytest.mark.parametrize(
    "text",
    [
        "Das kostet 5 Euro und ist nicht teuer.",
        "Il y a 3 chats dans la maison.",
        "Cuesta 5 euros y no es caro.",
        "Costa 5 euro, non è caro.",
        "Custa 5 euros e não é caro.",
        "这是 5 本书。",
        "5 + 3",
        "",
    ],
)
def test_any_other_text_is_unknown(text):
    assert text_language("auto", text, TEN) == ""


def test_english_rules_never_run_for_a_checkpoint_without_english():
    assert text_language("auto", "It is the end.", ("french", "german")) == ""
