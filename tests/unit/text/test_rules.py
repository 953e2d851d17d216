"""Rules run only where they can match, in linear time for every rule on its own."""

import pytest

from server.text import markup, unicode
from server.text.english import normalize
from server.text.english.rules import Rules, rule

from .readings import CLASSES, items


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_rule_needs_never_changes_the_result(name):
    for item in items(name):
        for piece in normalize.sentences(markup.to_text(unicode.clean(item.typed))):
            text = normalize.FIRST.apply(piece)
            everything = text
            for each in normalize.RULES:
                everything = each.apply(everything)
            assert normalize.RULES.apply(text) == everything


def test_rules_run_in_their_order_and_see_what_the_ones_before_left():
    rules = Rules(rule("b", "c", "b"), rule("a", "b", "a"), rule("c+", "d", ("b", "c")))
    assert rules.apply("ab") == "bd"
    assert rules.apply("xy") == "xy"


@pytest.mark.parametrize("text", ["It is 5 p.m. Then", "Mr. Brown left. He ran", "U.S. troops. They left"])
def test_an_abbreviation_ends_no_sentence(text):
    assert list(normalize.sentences("See Dr. Smith at St. John's. He is in.")) == [
        "See Dr. Smith at St. John's.",
        "He is in.",
    ]
    assert "".join(normalize.sentences(text)).replace(" ", "") == text.replace(" ", "")
