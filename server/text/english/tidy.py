"""Last rules of English: brackets, dashes and leftover symbols become punctuation the voice knows, spaces are put right."""

from __future__ import annotations

import re
import unicodedata

from server.text.english import numbers
from server.text.english.rules import Rule, rule

_QUOTED = r"(?<![\w'])'(?P<inside>[^'\n]{1,300}(?:(?<=\w)'(?=\w)[^'\n]{1,300}){0,8})'(?![\w'])"
_OPENING = r"[ ]?[(\[{]+[ ]?"
_CLOSING = r"[ ]?[)\]}]+"
_NUMBERED = r"(?<![\w(])\((?P<mark>[a-zA-Z]|\d{1,2})\)[ ]?(?!\d)"
_DASH = r"[ ]*(?:[—–]|--+)[—–\s]*|(?<=\s)-(?=\s)[—–\s]*"
_LEADING_DASH = r"(?m)^[ ]*[—–\-]+[ ]*"
_NOT_SPOKEN = re.compile(r"[^\w\s.,?!;:'\"\-—\U000f0000-\U0010ffff]|_")
_DIGIT = re.compile(r"[^\W\D]|[⁰¹²³⁴-⁹₀-₉①-⑳⓪]")
_NEXT_TO_MARK = re.compile(r"[.,;:?! ][.,;:?!]|[.?!,;:][ ][.,;:?!]")
_BEFORE_STOP = re.compile(r"\s+(?=[.,;:?!])(?!\.\.\.)")
_DOUBLED = re.compile(r"(?:[,;:](?:[ ]?[,;:])*[ ]?)(?=[.?!,;:])|(?<=[.?!])[ ]?[,;:]+|(?<=[?!])\.(?!\.)|(?<![.])\.[ ]?\.(?!\.)")
_STARTING = re.compile(r"^[\s,;:]+|^[.]+(?=\s*\w)")
_EMPTY_QUOTES = re.compile(r"\"\s*\"")
_END = re.compile(r"[.!?…]['\")]*$")
_END_COMMA = re.compile(r"[,;:\-—\s]+$")


def _quoted(match: re.Match[str]) -> str:
    return f'"{match["inside"]}"'


def _numbered(match: re.Match[str]) -> str:
    """Return the mark of an enumeration, "(1) input, (2) model"; without brackets."""
    return f"{match['mark']}, "


PARAGRAPH: tuple[Rule, ...] = (rule(_QUOTED, _quoted, "'"),)
"""Run on a whole paragraph: a quotation may have several sentences."""

RULES: tuple[Rule, ...] = (
    rule(r"``|''", '"', ("``", "''")),
    rule(r'(?<=\w)"(?=\w)', " ", '"'),
    rule(r"(?<=\w),(?=\w)", ", ", ","),
    rule(_LEADING_DASH, "", tuple("—–-")),
    rule(_DASH, " — ", ("—", "–", "- ", "--")),
    rule(_OPENING, ", ", tuple("([{")),
    rule(_CLOSING, ",", tuple(")]}")),
)

EARLY: tuple[Rule, ...] = (rule(_NUMBERED, _numbered, "("),)


def tidy(text: str) -> str:
    """Return ``text`` with only words and the punctuation of prose, in one line."""
    text = _DIGIT.sub(_digit, text)
    text = _NOT_SPOKEN.sub(" ", text)
    if '"' in text:
        text = _EMPTY_QUOTES.sub(" ", text)
    text = " ".join(text.split())
    if _NEXT_TO_MARK.search(text):
        text = _BEFORE_STOP.sub("", text)
        text = _DOUBLED.sub("", text)
    text = _STARTING.sub("", text)
    return text.strip()


def _digit(match: re.Match[str]) -> str:
    value = unicodedata.numeric(match[0], None)
    return f" {numbers.cardinal(int(value))} " if value is not None else " "


def finish(text: str) -> str:
    """Return ``text`` as a sentence: it begins with a capital and ends with a full stop, if it has words."""
    text = _END_COMMA.sub("", text)
    if not any(map(str.isalnum, text)):
        return ""
    first = next(index for index, character in enumerate(text) if character.isalnum())
    if text[first : first + 2].islower() or len(text) == first + 1 or not text[first + 1].isalpha():
        text = text[:first] + text[first].upper() + text[first + 1 :]
    return text if _END.search(text) else f"{text}."
