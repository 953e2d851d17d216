"""A rule for the reading of an English heteronym, and contexts that several rules share."""

from __future__ import annotations

from typing import NamedTuple

MODAL = r"to|will|would|can|could|should|shall|must|may|might|cannot|let's|please|[a-z]+n['’]t"
"""Words that a verb in its base form follows."""
NEGATED = rf"{MODAL}|not"
CLAUSE = r"(?:[.!?;:,]|and|but|because|that|when|after|so|then|while|what|which)"
"""The beginning of a clause."""
PAST = r"[^.!?]*\b(?:yesterday|ago|last (?:night|week|month|year|summer|winter|spring|fall|time))\b"
NOT_METAL = (
    r"(?!\s*(?:-|singer|vocal|guitar|actor|actress|role|time|engineer|developer|author|architect|changes?\b|to\b|the\b|"
    r"us\b|generation|negotiat))"
)
STREAMED = r"(?:air|on the air|stage|tv|television|radio|camera|youtube|twitch|facebook|instagram|cnn|the bbc)"
START = "[.!?:]"
"""The beginning of a sentence."""
END = r"[.,;:!?)]|$"
HOURS = "noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
COUNT = rf"{HOURS}|[a-z]+teen|(?:twen|thir|for|fif|six)ty(?:[- ][a-z]+)?|half|last|first|next|final|this|that|per"
CAUSING = r"(?:let|lets|help|helps|helped|make|makes|made|have|has|had|hear|heard|watch|watched) (?:her|his)"
"""What precedes "her" or "his" where a verb may follow."""


class Rule(NamedTuple):
    """reading: None leaves the word to the talker. before, after: regular expressions."""

    reading: str | None
    before: str
    after: str


def rule(reading: str | None, before: str = "", after: str = "") -> Rule:
    """before, after: what ends before the word, and what begins after it, in lower case.

    Without ``before``, the word must not follow a hyphen.
    """
    beginning = rf"(?:(?<![\w'’])|(?=[.!?;:,]))(?:{before})\s+$" if before else "[^-]$"
    return Rule(reading, beginning, rf"\s*(?:{after})")
