"""Abbreviations of American states with a full stop: Hartford, Conn., Rep. Lee (D-Calif.), Ala. and Ga."""

from __future__ import annotations

import re

from server.text.english.addresses import STATES
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.patterns import lazy

_CERTAIN: dict[str, str] = {
    "Ala": "Alabama",
    "Ariz": "Arizona",
    "Calif": "California",
    "Colo": "Colorado",
    "Conn": "Connecticut",
    "Fla": "Florida",
    "Kans": "Kansas",
    "Minn": "Minnesota",
    "Mich": "Michigan",
    "Nebr": "Nebraska",
    "Okla": "Oklahoma",
    "Oreg": "Oregon",
    "Tenn": "Tennessee",
    "Wisc": "Wisconsin",
    "Wyo": "Wyoming",
}
"""States whose abbreviation is no word."""
_AFTER_PLACE: dict[str, str] = _CERTAIN | {
    "Cal": "California",
    "Penn": "Pennsylvania",
    "Ark": "Arkansas",
    "Del": "Delaware",
    "Ga": "Georgia",
    "Ill": "Illinois",
    "Ind": "Indiana",
    "Kan": "Kansas",
    "Ky": "Kentucky",
    "La": "Louisiana",
    "Mass": "Massachusetts",
    "Md": "Maryland",
    "Miss": "Mississippi",
    "Mo": "Missouri",
    "Mont": "Montana",
    "Neb": "Nebraska",
    "Nev": "Nevada",
    "Ore": "Oregon",
    "Pa": "Pennsylvania",
    "Tex": "Texas",
    "Va": "Virginia",
    "Vt": "Vermont",
    "W.Va": "West Virginia",
    "W. Va": "West Virginia",
    "Wash": "Washington",
    "Wis": "Wisconsin",
}
"""States after the name of a place and a comma. Elsewhere some are words or other abbreviations."""
SHORT_STATES = frozenset(name.lower() for name in _CERTAIN)
_PLACE = r"""
    (?: (?<=[a-z],[ ]) | (?<=[a-z]\.,[ ]) | (?<=,[ ]&[ ]) | (?<=,[ ]and[ ]) | (?<=\([RDI]-) | (?<=,[ ][RDI]-)
      | (?<=\bUniv\.[ ]of[ ]) | (?<=\bUniversity[ ]of[ ]) )
"""
_STATE = rf"""
    {_PLACE} (?P<placed>{alternatives(_AFTER_PLACE)})\. (?=\s*(?:$|[,;:)\d]|[a-z]|[A-Z]|&))
  | (?<![\w.'-]) (?P<listed>Cal|Ore|Tex|Wash|Mass|Penn|Nev|Mont)\. (?=[ ](?:and|or|&)[ ][A-Z]|,[ ]D\.?C\b)
  | (?<=[a-z]\.[ ]and[ ]) (?P<last>Cal|Ore|Tex|Wash|Mass|Penn|Nev|Mont)\. (?=[ ][a-z]|[.,])
  | (?<![\w.'-]) (?P<certain>{alternatives(_CERTAIN)})\. (?!\w)
"""
_PLACE_BEFORE = lazy(r"(?:\b[A-Z][\w.'-]*,[ ](?:&[ ]|and[ ])?|[(,][ ]?[RDI]-|\bUniv(?:\.|ersity) of )$")
_DISTRICT_ZIP = r"(?<=\b[A-Z]\.[A-Z]\.[ ])(?P<zip>\d{5})(?![\w-]|[.,]\d)"
"""Washington, D.C. 20500."""
_PARTIES = {"D": "Democrat", "R": "Republican", "I": "Independent"}
_PARTY = rf"""
    \((?P<party>[DRI])-
    (?: (?P<code>{alternatives(STATES)}) | (?P<dotted>(?:[A-Z]\.){{2}}) | (?P<name>{alternatives(STATES.values())}) )\)
"""
"""Rep. Lopez (D-CA), Sen. Gillibrand (D-N.Y.), Sen. Hill (R-Texas)."""


def _party(match: re.Match[str]) -> str:
    state = match["name"] or STATES.get(match["code"] or match["dotted"].replace(".", ""))
    return f"({_PARTIES[match['party']]} from {state})" if state else match[0]


def _state(match: re.Match[str]) -> str:
    """Return the state, with a full stop if that of the abbreviation also ends the text."""
    placed = match["placed"]
    if placed and placed not in _CERTAIN and not _PLACE_BEFORE.search(match.string, 0, match.start()):
        return match[0]
    name = _AFTER_PLACE[placed or match["listed"] or match["last"] or match["certain"]]
    return name if match.string[match.end() :].strip() else f"{name}."


RULES: tuple[Rule, ...] = (
    rule(_STATE, _state, (*first_words(_AFTER_PLACE), "va")),
    rule(_PARTY, _party, ("(D-", "(R-", "(I-")),
    rule(_DISTRICT_ZIP, lambda match: " ".join(match["zip"]), r". \d\d\d\d\d"),
)
"""Run before other abbreviations, some of which look like states."""
