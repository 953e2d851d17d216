"""Colloquial contractions that a checkpoint misreads, as words: d'you, c'mon, might've, Dad'll, what're, cup o' tea."""

from __future__ import annotations

import re

from server.text.english.rules import Rule, rule

_DO = r"(?<![\w'])(?P<d>[Dd])'(?=(?:you|ya|we|they)\b)"
_COME_ON = r"(?<![\w'])(?P<c>[Cc])'mon\b"
_SUPPOSE = r"(?<![\w'])(?P<s>[Ss])'pose(?=d?\b)"
_HAVE = r"(?<=\b[Mm]ight)'ve\b"
_WILL = r"""
    \b(?!(?i:I|you|ya|he|she|it|we|they|that|this|there|here|who|what|which|how|where|when|why|these|those)')
    (?P<who>[A-Za-z]{2,30})'ll\b
"""
_ARE = r"\b(?!(?i:you|ya|we|they)')(?P<who>[A-Za-z]{2,30})'re\b"
_DID = r"\b(?P<asked>(?i:why|where|what|when))'d(?=[ ](?:I|you|he|she|it|we|they)\b)"
_OF = r"(?<=[A-Za-z][ ])o'(?=[ ](?!clock\b)[A-Za-z])"


def _do(match: re.Match[str]) -> str:
    return f"{match['d']}o "


def _come_on(match: re.Match[str]) -> str:
    return f"{match['c']}ome on"


def _suppose(match: re.Match[str]) -> str:
    return f"{match['s']}uppose"


def _will(match: re.Match[str]) -> str:
    return f"{match['who']} will"


def _are(match: re.Match[str]) -> str:
    return f"{match['who']} are"


def _did(match: re.Match[str]) -> str:
    return f"{match['asked']} did"


FIRST: tuple[Rule, ...] = (
    rule(_DO, _do, ("d'", "D'")),
    rule(_COME_ON, _come_on, "'mon"),
    rule(_SUPPOSE, _suppose, "'pose"),
    rule(_HAVE, " have", "'ve"),
    rule(_WILL, _will, "'ll"),
    rule(_ARE, _are, "'re"),
    rule(_DID, _did, "'d "),
    rule(_OF, "of", " o' "),
)
