"""Rules run only where they can match, in linear time for every rule on its own."""

import pytest

from server.text import markup, unicode
from server.text.english import normalize
from server.text.english.rules import Rules, rule

from .readings import CLASSES, items


@pytest.mark.parametrize("name", CLASSES)
def test_skipping_rules_never_changes_the_result(name):
    for item in items(name):
        for piece in normalize.sentences(markup.to_text(unicode.clean(item.typed))):
            text = normalize.FIRST.apply(piece)
            everything = text
            for each in normalize.RULES:
                everything = each.apply(everything)
            assert normalize.RULES.apply(text) == everything


def test_rules_run_in_order_on_the_output_of_earlier_rules():
    rules = Rules(rule("b", "c", "b"), rule("a", "b", "a"), rule("c+", "d", ("b", "c")))
    assert rules.apply("ab") == "bd"
    assert rules.apply("xy") == "xy"


@pytest.mark.parametrize("text", ["It is 5 p.m. Then", "Mr. Brown left. He ran", "U.S. troops. They left"])
def test_an_abbreviation_does_not_end_a_sentence(text):
    assert list(normalize.sentences("See Dr. Smith at St. John's. He is in.")) == [
        "See Dr. Smith at St. John's.",
        "He is in.",
    ]
    assert "".join(normalize.sentences(text)).replace(" ", "") == text.replace(" ", "")
