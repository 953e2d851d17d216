"""Which reading of an English heteronym its context asks for, such as "wind" in "wind the clock".

Rules are only for contexts that are nearly certain. Elsewhere the talker reads the spelling. A checkpoint's lexicon has
the phonemes of each reading (``engine.prompt.lexicon``).
"""

from __future__ import annotations

import re
from functools import cache

from engine.prompt.heteronyms import RULES

CONTEXT = 80
"""Characters on either side of a word that a rule can see."""
WORDS = frozenset(RULES)
NAMES = frozenset((word, rule.reading) for word, rules in RULES.items() for rule in rules if rule.reading)
"""Every word with the name of each of its readings."""


@cache
def compiled_rules() -> dict[str, list[tuple[str | None, re.Pattern[str], re.Pattern[str]]]]:
    """Return the rules of each word: reading, and the patterns of the text before and after it.

    The first call compiles them, which takes about 40 ms.
    """
    return {
        word: [(rule.reading, re.compile(rule.before), re.compile(rule.after)) for rule in rules]
        for word, rules in RULES.items()
    }


def reading(word: str, before: str, after: str) -> str | None:
    """Return the name of the reading of ``word``, which is in lower case; None if its context does not decide.

    before, after: up to ``CONTEXT`` characters of text around it.
    """
    before, after = before.lower().replace("\n", ". "), after.lower()
    if len(before) < CONTEXT:
        before = f". {before}"  # the beginning of a text is the beginning of a sentence
    rules = compiled_rules().get(word, ())
    return next((name for name, ends, begins in rules if ends.search(before) and begins.match(after)), None)
