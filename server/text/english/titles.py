"""Titles before names: Mr. Lee, Rt. Hon., sgt. Smith, Sr. Mary; Dr. Smith but Maple Dr., St. Paul but 5th St."""

from __future__ import annotations

import re

from server.text import marks
from server.text.english.abbreviations import ORDINAL_WORDS, stop, stop_after_name
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.english.title_words import BARE_TITLES, TITLES
from server.text.patterns import lazy

_NAME = rf"(?=[ ][A-Z{marks.NAMES}])"
_SENTENCE_AFTER = lazy(r" (?:He|She|It|We|They|You|His|Her|My|Our|But|And|So) [a-z]")
_WORD_BEFORE = lazy(r"[a-z] $")
_UPPER_TITLES = {"MR": "Mister", "MRS": "Missus", "MS": "Miz", "DR": "Doctor"}
_TITLE = rf"(?<![\w.])(?P<word>{alternatives(TITLES)})\.{_NAME}|(?<![\w.&])(?P<bare>{'|'.join(BARE_TITLES)}){_NAME}"
_NO_NAMES = (
    r"Access|Congo|Degree|Edge|Excel|Exchange|Imaging|Office|Outlook|Paint|Power\w*|Project|SQL|Scan\w*|Server|Society|Store"
    "|Teams|Windows|Word"
)
"""Words before which MS, MR and DR are letters: MS Word, MR Imaging."""
_TITLE_AND = r"(?<![\w.])(?P<word>Mr|Mrs|Ms|Dr|Messrs)\.?(?=[ ](?:and|&|or)[ ](?:Mr|Mrs|Ms|Dr|the|his|her)\b)"
_LOW_TITLE = rf"""
    (?<![\w.])(?<!dot[ ])(?P<word>sgt|lt|capt|gov|sen|pres|prof|cpl|maj|adm|rev|mt)\.
    (?=[ ](?:[A-Z][a-z]|[{marks.NAMES}]))
"""
_DOCTOR = rf"(?<![\w.])(?P<word>Dr|St)(?:\.{_NAME}|{_NAME})"
_PLACE_BEFORE = lazy(
    rf"(?:(?<=[^.!?\n]\s)(?:[A-Z][\w']+|[{marks.NAMES}])(?:[ ][JS]r\.)?|\d(?:st|nd|rd|th)|\b(?:{ORDINAL_WORDS}))\s$"
)
_PREPOSITION = lazy(
    r"(?:^|(?<![JS]r)[.!?:,;\"'(]\s?|\b(?:[Ii]n|[Aa]t|[Oo]n|[Tt]o|[Tt]he|[Aa]nd|[Oo]f|[Ff]or|[Bb]y|[Nn]ear|[Ff]rom|[Aa]sk|[Ss]ee|[Cc]all|"
    r"[Ww]ith|[Vv]isit|[Dd]ear|[Hh]i|[Hh]ello|[Tt]hanks|[Bb]ut|[Oo]r|[Tt]hen|[Ww]hen|[Ii]s|[Ww]as|[Mm]y|[Oo]ur|[Yy]es|[Nn]o)\s)$"
)
_PLACE_ALONE = rf"(?:(?<=[a-z{marks.NAMES}][ ])|(?<=[JS]r\.[ ]))Dr\.?(?=\s*[.,!?]?\s*$)"
_TITLE_ALONE = r"(?<![\w.])(?P<word>Mr|Mrs|Ms|Dr|Prof)\.?(?=\s*[.,!?]?\s*$)"
_NUNS = (
    "Agatha|Agnes|Angela|Ann|Anna|Anne|Benedicta|Bernadette|Catherine|Cecilia|Clare|Dorothy|Elizabeth|Frances|Helen|Jane"
    "|Joan|Josephine|Julia|Kathleen|Lucia|Lucy|Margaret|Maria|Marie|Martha|Mary|Monica|Patricia|Rita|Rosa|Rose|Ruth|Teresa"
    "|Theresa|Therese|Ursula|Veronica"
)
_SISTER = rf"(?<![\w.])Sr\.?(?=[ ](?:{_NUNS})\b)"
_NAME_BEFORE = lazy(r"[A-Z][a-z]+,? $")


_FIRST = {
    "Lt": "Lieutenant",
    "Atty": "Attorney",
    "Maj": "Major",
    "Brig": "Brigadier",
    "Surg": "Surgeon",
    "Sgt": "Sergeant",
}
_SECOND = {"Gov": "Governor", "Gen": "General", "Col": "Colonel", "Cmdr": "Commander", "Maj": "Major"}
_PAIR = rf"(?<![\w.])(?P<first>{'|'.join(_FIRST)})\.[ ](?P<second>{'|'.join(_SECOND)})\.(?!\w)"
"""Two titles of one person: the Lt. Gov. spoke."""
_OFFICERS = "sgt lt capt gov sen prof pres det supt cmdr adm cpl rev".split()
_OFFICER = rf"""
    (?P<before>\b(?i:the|a|our|my|his|her|former|1st|2nd)[ ])
    (?P<word>{"|".join((*_OFFICERS, *map(str.capitalize, _OFFICERS)))})\. (?=[ ][a-z]|'s)
"""
"""An officer without a name: the Sgt. left."""


def _pair(match: re.Match[str]) -> str:
    return f"{_FIRST[match['first']]} {_SECOND[match['second']]}{stop_after_name(match)}"


def _title(match: re.Match[str]) -> str:
    word = match["word"] or match["bare"]
    if word in ("Sec", "Pt", "Fr", "Br", "Det", "Rep") and match.start() and match.string[match.start() - 1].isdigit():
        return match[0]
    return match[0] if word == "Gen" and _is_first_name(match) else TITLES[word]


def _is_first_name(match: re.Match[str]) -> bool:
    """Return whether a word ends a sentence: "I texted Gen. She replied."."""
    if not _WORD_BEFORE.search(match.string, max(0, match.start() - 2), match.start()):
        return False
    return _SENTENCE_AFTER.match(match.string, match.end()) is not None


def _doctor(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 24) : match.start()]
    place = _PLACE_BEFORE.search(before) and not _PREPOSITION.search(before)
    if match["word"] == "Dr":
        return "Drive" + stop(match) if place and match[0].endswith(".") else "Doctor"
    return "Street" + (stop_after_name(match) if match[0].endswith(".") else "") if place else "Saint"


def _place_alone(match: re.Match[str]) -> str:
    """Return "Drive" after a name: "on Oak Dr."."""
    before = match.string[max(0, match.start() - 24) : match.start()]
    if not _PLACE_BEFORE.search(before) or _PREPOSITION.search(before):
        return match[0]
    return "Drive" + stop(match)


def _admiral(match: re.Match[str]) -> str:
    return "Rear Admiral" if match["word"] == "R" else "Vice Admiral"


def _sister(match: re.Match[str]) -> str:
    """Return "Sister" before the name of a woman. After a name, Sr. is Senior."""
    return "Sister" if not _NAME_BEFORE.search(match.string, 0, match.start()) else match[0]


RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])Gen\.(?=[ ][A-Z](?!\w))", "Gen", "Gen."),
    rule(
        rf"(?<![\w.])(?P<word>MR|MRS|MS|DR)\.?(?=[ ][A-Z])(?![ ](?:{_NO_NAMES})\b)",
        lambda match: _UPPER_TITLES[match["word"]],
        first_words(_UPPER_TITLES),
    ),
    rule(r"(?<![\w.])(?P<word>R|V)\.[ ]?Adm\.?(?=[ ][A-Z])", _admiral, ("adm",)),
    rule(
        r"(?<![\w.])(?P<word>Sgt|Pvt|Pfc)\.(?=[ ]1st[ ]Class)",
        lambda match: TITLES[match["word"]],
        ("sgt", "pvt", "pfc"),
    ),
    rule(
        r"(?<![\w.])(?P<word>Capt|Sgt|Lt|Pres|Gov|Prof|Gen|Col|Sen)\.(?=[ ](?:and|&)[ ])",
        lambda match: TITLES[match["word"]],
        ("capt", "sgt", "lt", "pres", "gov", "prof", "gen", "col", "sen"),
    ),
    rule(_PAIR, _pair, ("gov", "gen", "col", "cmdr", "maj")),
    rule(r"(?<!\w)Rt\.?[ ]Rev\b\.?", "Right Reverend", ("rt",)),
    rule(_OFFICER, lambda match: match["before"] + TITLES[match["word"].capitalize()].lower(), first_words(_OFFICERS)),
    rule(r"(?<!\w)Rt\.?[ ]Hon\b\.?", "Right Honorable", ("rt",)),
    rule(r"(?<!\w)Prof\.(?=[ ]of\b)", "Professor", ("prof",)),
    rule(_TITLE_AND, lambda match: TITLES.get(match["word"], "Doctor"), first_words(_UPPER_TITLES)),
    rule(_SISTER, _sister, ("sr",)),
    rule(_DOCTOR, _doctor, ("dr", "st")),  # before "Rev. Dr." and "Mt. St." have words that look like names of streets
    rule(
        _LOW_TITLE,
        lambda match: TITLES[match["word"].capitalize()],
        ("sgt", "lt", "capt", "gov", "sen", "pres", "prof", "cpl", "maj", "adm", "rev", "mt"),
    ),
    rule(_TITLE, _title, first_words(TITLES)),
    rule(_PLACE_ALONE, _place_alone, ("dr",)),
    rule(_TITLE_ALONE, lambda match: TITLES.get(match["word"], "Doctor"), ("mr", "mrs", "ms", "dr", "prof")),
)
"""Run before abbreviations, some of which look like titles."""
