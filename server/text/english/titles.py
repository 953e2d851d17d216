"""Titles before names: Mr. Lee, Rt. Hon., Gen. Grant, sgt. Smith, Sr. Mary. Dr. is in ``abbreviations``."""

from __future__ import annotations

import re

from server.text.english.abbreviation_words import BARE_TITLES, TITLES
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.patterns import lazy

_NAME = r"(?=[ ][A-Z])"
_UPPER_TITLES = {"MR": "Mister", "MRS": "Missus", "MS": "Miz", "DR": "Doctor"}
_TITLE = rf"(?<![\w.])(?P<word>{alternatives(TITLES)})\.{_NAME}|(?<![\w.&])(?P<bare>{'|'.join(BARE_TITLES)}){_NAME}"
_TITLE_AND = r"(?<![\w.])(?P<word>Mr|Mrs|Ms|Dr|Messrs)\.?(?=[ ](?:and|&|or)[ ](?:Mr|Mrs|Ms|Dr|the|his|her)\b)"
_LOW_TITLE = r"(?<![\w.])(?<!dot[ ])(?P<word>sgt|lt|capt|gov|sen|pres|prof|cpl|maj|adm|rev|mt)\.(?=[ ][A-Z][a-z])"
_NUNS = (
    "Agatha|Agnes|Angela|Ann|Anna|Anne|Benedicta|Bernadette|Catherine|Cecilia|Clare|Dorothy|Elizabeth|Frances|Helen|Jane"
    "|Joan|Josephine|Julia|Kathleen|Lucia|Lucy|Margaret|Maria|Marie|Martha|Mary|Monica|Patricia|Rita|Rosa|Rose|Ruth|Teresa"
    "|Theresa|Therese|Ursula|Veronica"
)
_SISTER = rf"(?<![\w.])Sr\.?(?=[ ](?:{_NUNS})\b)"
_NAME_BEFORE = lazy(r"[A-Z][a-z]+,? $")


def _title(match: re.Match[str]) -> str:
    word = match["word"] or match["bare"]
    if word in ("Sec", "Pt", "Fr", "Br", "Det", "Rep") and match.start() and match.string[match.start() - 1].isdigit():
        return match[0]
    return TITLES[word]


def _sister(match: re.Match[str]) -> str:
    """Return "Sister" before the name of a woman. After a name, Sr. is Senior."""
    return "Sister" if not _NAME_BEFORE.search(match.string, 0, match.start()) else match[0]


RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])Gen\.(?=[ ][A-Z](?!\w))", "Gen", "Gen."),
    rule(
        r"(?<![\w.])(?P<word>MR|MRS|MS|DR)\.?(?=[ ][A-Z])",
        lambda match: _UPPER_TITLES[match["word"]],
        first_words(_UPPER_TITLES),
    ),
    rule(r"(?<!\w)Rt\.?[ ]Hon\b\.?", "Right Honorable", ("rt",)),
    rule(r"(?<!\w)Prof\.(?=[ ]of\b)", "Professor", ("prof",)),
    rule(_TITLE_AND, lambda match: TITLES.get(match["word"], "Doctor"), first_words(_UPPER_TITLES)),
    rule(_SISTER, _sister, ("sr",)),
    rule(
        _LOW_TITLE,
        lambda match: TITLES[match["word"].capitalize()],
        ("sgt", "lt", "capt", "gov", "sen", "pres", "prof", "cpl", "maj", "adm", "rev", "mt"),
    ),
    rule(_TITLE, _title, first_words(TITLES)),
)
"""Run before abbreviations, some of which look like titles."""
