"""Notation of music as words: in Bb, G D Em C, a ii-V-I, K. 525, BWV 1007."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule

_DEGREES = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7}
_DEGREE = r"(?:VII|VI|V|IV|I{1,3}|vii|vi|v|iv|i{1,3})[°o]?7?"
_PROGRESSION = rf"(?<![\w.'–-]){_DEGREE}(?:[-–]{_DEGREE}){{2,7}}(?![\w'–-])"
"""The chords of a song by their degrees: I-V-vi-IV. Two of them are a range."""
_CHORD = r"[A-G][#b♯♭]?(?:maj7|m7|m|7|sus[24]|dim|aug)?"
_CHORDS = rf"(?<![\w'.]){_CHORD}(?:[ ]?[-–|][ ]?{_CHORD}|[ ]{_CHORD}){{2,11}}(?![\w'])"
"""G D Em C. At least one must have more than a letter."""
_ONE_CHORD = re.compile(r"(?P<note>[A-G])(?P<sign>[#b♯♭])?(?P<kind>maj7|m7|m|7|sus[24]|dim|aug)?")
_SIGNS = {"#": " sharp", "♯": " sharp", "b": " flat", "♭": " flat"}
_KINDS = {
    "maj7": " major seven",
    "m7": " minor seven",
    "m": " minor",
    "7": " seven",
    "sus2": " suspended two",
    "sus4": " suspended four",
    "dim": " diminished",
    "aug": " augmented",
}
_KEY = r"""
    (?P<before>\b(?:[Ii]n|[Kk]ey[ ]of|[Tt]he[ ]key[ ]is|[Kk]ey:|[Tt]uned[ ]to)[ ](?:the[ ]key[ ]of[ ])?)
    (?P<note>[A-G])(?P<sign>[b♭]|\#|♯)(?P<minor>m)? (?![\w'#])
  | (?<![\w.']) (?P<alone>[ABDEG])b (?=[ ](?:clarinet|trumpet|cornet|horn|tuba|sax\w*|instrument|tuning|scale|chord)\b)
"""
"""in Bb, key of F#m."""
_CATALOG = r"""
    (?<![\w.]) (?P<catalog>K|KV|BWV|RV|HWV|Op|WoO)\.?[ ] (?P<number>\d{3,4}) (?![\w%]|[.,]\d)
"""
"""The number of a work: K. 525, BWV 1007."""
_CATALOGS = frozenset(("KV", "BWV", "RV", "HWV", "WoO"))


def _progression(match: re.Match[str]) -> str:
    degrees = re.findall(r"[IViv]+", match[0])
    if len(set(degrees)) < 2:
        return match[0]
    return " ".join(
        numbers.cardinal(_DEGREES[each.lower()]) + (" diminished" if mark else "") + (" seven" if seventh else "")
        for each, mark, seventh in re.findall(r"([IViv]+)([°o]?)(7?)", match[0])
    )


def _chord(match: re.Match[str]) -> str:
    return f"{match['note']}{_SIGNS.get(match['sign'] or '', '')}{_KINDS.get(match['kind'] or '', '')}"


def _chords(match: re.Match[str]) -> str:
    found = list(_ONE_CHORD.finditer(match[0]))
    kinds = [each["kind"] for each in found if each["kind"]]
    if not kinds or set(kinds) == {"7"}:  # "A B7 C" are codes rather than chords
        return match[0]
    return ", ".join(map(_chord, found))


def _key(match: re.Match[str]) -> str:
    if match["alone"]:
        return f"{match['alone']} flat"
    return f"{match['before']}{match['note']}{_SIGNS[match['sign']]}{' minor' if match['minor'] else ''}"


def _catalog(match: re.Match[str]) -> str:
    if match["catalog"] not in _CATALOGS and "." not in match[0]:
        return match[0]
    name = "opus" if match["catalog"] == "Op" else match["catalog"]
    return f"{name} {numbers.grouped(match['number'])}"


RULES: tuple[Rule, ...] = (
    rule(_PROGRESSION, _progression, ("-V", "–V", "-v", "–v", "-I", "–I", "-i", "–i")),
    rule(_CHORDS, _chords, tuple(f"{note}{kind}" for note in "ABCDEFG" for kind in ("m", "7", "maj", "sus", "b", "#"))),
    rule(_KEY, _key, ("Ab", "Bb", "Db", "Eb", "Gb", "#", "♭", "♯")),
    rule(_CATALOG, _catalog, ("K. ", "KV ", "BWV ", "RV ", "HWV ", "Op. ", "WoO ")),
)
"""Run before codes, Roman numerals and ranges of letters."""
