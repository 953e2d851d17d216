"""Abbreviations of medical notes as words: pt c/o SOB, 400 mg PO q8h prn, BID, 54 y/o, stage IIIB."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.english import letters, numbers
from server.text.english.rules import Rule, alternatives, beside, rule
from server.text.patterns import lazy

_EVERY = r"(?<![\w.])[qQ](?P<count>\d{1,2})(?:[-–](?P<to>\d{1,2}))?[ ]?(?P<unit>h(?:ou)?rs?|h|H|d|min)(?!\w)\.?"
_EVERY_UNITS = {"h": "hours", "d": "days", "m": "minutes"}
_TIMES_A_DAY = r"(?<![\w.\-])(?P<word>(?i:[btq]id|qhs|prn)|NPO|[btq]\.i\.d\.|(?<=[a-z\d.][ ])p\.[or]\.)(?![\w\-])"
_PILLS = r"""
    (?<=\d[ ])(?P<word>tab|cap)(?P<many>s?)\b\.?
    (?= [ ](?:p\.?o\b|by[ ]mouth|daily|once|twice|every|q\d|[btq]\.?i\.?d\b|PO|[BTQ]ID
      |at[ ]bedtime|with[ ](?:food|water)) )
"""
"""1 tab. p.o."""
_PILL_WORDS = {"tab": "tablet", "cap": "capsule"}
_DOSE_BEFORE = lazy(
    r"(?:\d[ ]?(?:mg|mcg|µg|g|ml|mL|cc|units?|IU|tabs?|caps?|puffs?|drops?|gtts?)\b"
    r"|\b(?:tab|tablet|cap|capsule|puff|drop|dose)s?\b"
    r"|\b(?:PO|IV|IM|SC|SQ|SL|PR|po|take|apply|inhale|inject|ointment|cream|solution)\b)[^.!?]{0,40}$",
    re.IGNORECASE,
)
"""A dose, or a word for taking one, before BID."""
_DOSE_AFTER = lazy(r"[ ](?:with|x[ ]?\d|for[ ]\d|prn|PRN|dosing|before|after)\b")
_OFFER_BEFORE = lazy(
    r"\b(?:a|an|the|this|that|my|your|his|her|our|their|every|any|no|of|to|[a-z]+est|\w+ing) $", re.IGNORECASE
)
"""Words before a bid at an auction."""
_X_WORDS = {"Dx": "Diagnosis", "dx": "diagnosis", "Hx": "History", "hx": "history", "Sx": "Symptoms", "sx": "symptoms"}
_X_WORDS |= {"Tx": "Treatment"}
_MEASURED = {
    "Hgb": "Hemoglobin",
    "Plt": "Platelets",
    "Hct": "Hematocrit",
    "Ht": "Height",
    "ht": "height",
    "Wt": "Weight",
    "wt": "weight",
}
_BREATH = r"(?<![\w.\-])SOB(?![\w\-])"
_ILLNESS = lazy(
    r"\b(?:c/o|complains|pt|patients?|denies|chest|cough|fevers?|exertion|dyspnea|edema|wheez\w+|nausea|dizz\w+|asthma|COPD"
    r"|palpitations|symptoms?|lungs?|oxygen|lying|syncope)\b",
    re.IGNORECASE,
)

_ONCE = r"""
    (?P<way>\b(?:IM|IV|PO|SQ|SC|SL|PR|dose|mg|mL|ml)[ ]) x[ ]?
    (?= \d{1,2} (?:[.,;)] | \s*$ | [ ](?:now|stat|dose|then)\b) )
"""
"""IM x1."""


@lru_cache(8)
def _is_medical(text: str) -> bool:
    return bool(_ILLNESS.search(text))


def _every(match: re.Match[str]) -> str:
    """Return how often a dose is given: q8h is "every eight hours"."""
    unit = _EVERY_UNITS[match["unit"][0].lower()]
    if match["count"] == "1" and not match["to"]:
        return f"every {unit[:-1]}"
    to = f" to {numbers.cardinal(int(match['to']))}" if match["to"] else ""
    return f"every {numbers.cardinal(int(match['count']))}{to} {unit}"


def _times_a_day(match: re.Match[str]) -> str:
    """Return the letters of a dosage. "bid" is also a word."""
    word, text, start = match["word"], match.string, match.start()
    dosed = _DOSE_BEFORE.search(text, max(0, start - 60), start)
    if word.upper() in ("BID", "TID", "QID"):
        if not dosed and (word == "bid" or not _DOSE_AFTER.match(text, match.end())):
            return match[0]
        if word.lower() == "bid" and _OFFER_BEFORE.search(text, max(0, start - 12), start):
            return match[0]
    return letters.spell(word.replace(".", ""))


RULES: tuple[Rule, ...] = (
    rule(r"(?<!\w)(?P<word>[Pp])(?:t\b\.?|atient)[ ]c/o(?!\w)", r"\g<word>atient complains of", "c/o"),
    rule(
        r"(?<![\w.])(?<!\d[ ])(?P<word>[Pp])t\.?(?=[ ](?:reports|denies|states|presents|complains|is|was|has|seen|w/))",
        r"\g<word>atient",
        ("pt",),
    ),
    rule(
        r"x(?<=[A-Za-z][ ]x)(?<!for[ ]x)[ ]?(?=\d{1,2}[ ](?:days?|weeks?|wks?|months?|hrs?|hours|years?|doses?)\b)",
        "times ",
        "x",
    ),
    rule(_ONCE, r"\g<way>times ", beside("x", "")),
    rule(r"x(?<=[A-Za-z][ ]x)[ ]?(?P<days>\d{1,2})[ ]?d(?!\w)", r"times \g<days> days", "x"),
    rule(_EVERY, _every, "letter digit"),
    rule(_PILLS, lambda match: _PILL_WORDS[match["word"]] + match["many"], ("tab", "tabs", "cap", "caps")),
    rule(
        _TIMES_A_DAY,
        _times_a_day,
        ("bid", "tid", "qid", "qhs", "prn", "npo", "b.i.d", "t.i.d", "q.i.d", "p.o.", "p.r."),
    ),
    rule(r"(?<!\w)h/o(?=[ ])", "history of", "h/o"),
    rule(r"(?<!\w)s/p(?=[ ])", "status post", "s/p"),
    rule(r"(?<!\w)(?P<word>[Ff])/[uU](?!\w)", r"\g<word>ollow up", ("/u", "/U")),
    rule(
        r"(?<![\w./])(?P<word>[HhSs]x|[Dd]x(?=:|[ ]of\b)|Tx(?=:))(?![\w.]\w|\w)",
        lambda match: _X_WORDS[match["word"]],
        ("dx", "hx", "sx", "tx"),
    ),
    rule(
        rf"(?<![\w.])(?P<word>{alternatives(_MEASURED)})(?=:?[ ]\d)",
        lambda match: _MEASURED[match["word"]],
        frozenset(map(str.lower, _MEASURED)),
    ),
    rule(_BREATH, lambda match: "S O B" if _is_medical(match.string) else match[0], ("sob",)),
    rule(r"\b(?P<kind>no|family|medical|past|prior|social|surgical)[ ]hx(?!\w)", r"\g<kind> history", ("hx",)),
    rule(r"(?<=yo[ ][MF][ ])c/o(?!\w)|(?<=y/o[ ][MF][ ])c/o(?!\w)", "complains of", "c/o"),
    rule(r"(?<=\d)(?:[ -]?y/?o(?![\w-])|[ ]y\.o\.)(?=[ ][A-Za-z])", "-year-old", ("yo", "y/o", "y.o.")),
    rule(r"\b(?P<before>[Aa]n?[ ]\d{1,3})[ -]?y/?o(?![\w-])", r"\g<before>-year-old", ("yo", "y/o", "y.o.")),
    rule(
        r"\b(?P<before>(?:[Aa]n?|[Mm]y|[Tt]he|[Hh]is|[Hh]er|[Oo]ur|[Tt]heir|[Yy]our)[ ]\d{1,3})[ -]?yrs?\.?[ -]old\b",
        r"\g<before>-year-old",
        ("yr", "yrs"),
    ),
    rule(r"(?<=\d)(?:[ -]?y/?o(?![\w-])|[ ]y\.o\.)", " years old", ("yo", "y/o", "y.o.")),
    rule(
        r"\b(?P<word>[Ss]tage[ ])(?P<number>IV|I{1,3})(?P<letter>[A-C])(?!\w)",
        r"\g<word>\g<number> \g<letter>",
        "stage",
    ),
    rule(r"(?<=\d[ ])mm[ ]Hg(?!\w)", "mmHg", "mm Hg"),
)
"""Run before numbers and units are put into words."""
