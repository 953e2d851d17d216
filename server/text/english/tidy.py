"""The last rules of English: brackets, dashes and remaining symbols become commas, dashes and full stops."""

from __future__ import annotations

import re
import unicodedata

from server.text import marks
from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_QUOTED = r"(?<![\w'])'(?!n'(?!\w))(?P<inside>[^'\n]{1,300}(?:(?<=\w)'(?=\w)[^'\n]{1,300}){0,8})'(?![\w'])"
_OPENING = r"[ ]?[(\[{]+[ ]?"
_CLOSING = r"[ ]?[)\]}]+"
_NUMBERED = r"(?<![\w()])\((?P<mark>[a-zA-Z]|\d{1,2})\)[ ]?(?!\d)"
_DASH = r"[ ]*(?:[—–]|--+)[—–\s]*|(?<=\s)-(?=\s)[—–\s]*"
_LEADING_DASH = r"(?m)^[ ]*[—–\-]+[ ]*"
_NOT_SPOKEN = lazy(r"[^\w\s.,?!;:'\"\-—\U000f0000-\U0010ffff]")
_DIGIT = lazy(r"[\d⁰¹²³⁴-⁹₀-₉①-⑳⓪]")
_NEXT_TO_MARK = lazy(r"[.,;:?! ][.,;:?!]|[.?!,;:][ ][.,;:?!]")
_BEFORE_STOP = lazy(r"\s+(?=[.,;:?!])(?!\.\.\.)")
_DOUBLED = lazy(
    r"""
    [,;:](?:[ ]?[,;:])*[ ]?(?=[.?!,;:])          # the last of several marks counts
  | (?<=[.?!])(?<![ap]\.m\.)[ ]?[,;:]+           # but a full stop wins, except that of "a.m."
  | (?<=[?!])\.(?!\.) | (?<![.])\.[ ]?\.(?!\.)
  | (?<=[?!])[?!]{2,}                            # the first of three or more counts
    """,
    re.VERBOSE,
)
_BROKEN_OFF = lazy(
    r"""
    (?: [ ]—[ ]? | [ ]?(?<!\.)\.{3,}[ ]? ) (?: (?=["']?$|["'][ ]["']?[A-Z]) | (?P<mark>[?!]) )
  | [ ]—[ ]?[.](?![.])
    """,
    re.VERBOSE,
)
"""A dash or three dots at the end of a sentence: "But I thought—", "You mean that...?"."""
_STARTING = lazy(r"[\s,;:]+|[.]+(?=\s*\w)")
_SENTENCE_START = lazy(r"[.!?] (?<=[A-Za-z]..)(?<!\.m\. )[a-z](?![A-Z])")
_EMPTY_QUOTES = lazy(r"\"\s*\"")
_END = lazy(r"[.!?…]['\")]*$")
_END_PAUSES = lazy(r"[\s\U000f0000-\U000fffff]*[\U000f0000-\U000fffff]\s*$")
_SPOKEN = lazy(r"[^\W_]|[\U00100000-\U0010ffff]")
"""A letter, or the mark of a word with a pronunciation."""
_END_COMMA = lazy(r"[,;:\-—\s]+$")


def _quoted(match: re.Match[str]) -> str:
    return f'"{match["inside"]}"'


def _numbered(match: re.Match[str]) -> str:
    """Return the number or letter of an enumeration, "(1) input, (2) model", without brackets."""
    return f"{match['mark']}, "


RULES: tuple[Rule, ...] = (
    rule(r"``|''", '"', ("``", "''")),
    rule(r'"(?<=\w")(?=\w)', " ", '"'),
    rule(r",(?<=\w,)(?=\w)", ", ", ","),
    rule(_LEADING_DASH, "", tuple("—–-")),
    rule(_DASH, " — ", ("—", "–", "- ", "--")),
    rule(_OPENING, ", ", tuple("([{")),
    rule(_CLOSING, ",", tuple(")]}")),
)

QUOTES: tuple[Rule, ...] = (rule(_QUOTED, _quoted, "'"),)
"""Run before capitals: the words of 'AI' are looked for without quotation marks."""

EARLY: tuple[Rule, ...] = (
    rule(_NUMBERED, _numbered, "("),
    rule(r";(?<=[a-z]{2};)(?<!\btl;)(?=[A-Za-z]{2})", "; ", ";"),
)


def tidy(text: str) -> str:
    """Return ``text`` with only words and the punctuation of prose, in one line.

    A dash or three dots at the end of a sentence become a full stop: after them the pocket checkpoint speaks words that
    are not in the text.
    """
    text = _DIGIT.sub(_digit, text)
    text = " ".join(_NOT_SPOKEN.sub(" ", text.replace("_", " ")).split())
    if "—" in text or "..." in text:
        text = _BROKEN_OFF.sub(lambda match: match["mark"] or ".", text)
    if '"' in text:
        text = " ".join(_EMPTY_QUOTES.sub(" ", text).split())
    if _NEXT_TO_MARK.search(text):
        text = _BEFORE_STOP.sub("", text)
        text = _DOUBLED.sub("", text)
    if starting := _STARTING.match(text):
        text = text[starting.end() :]
    text = _SENTENCE_START.sub(lambda match: match[0].upper(), text)
    return text.strip()


def _digit(match: re.Match[str]) -> str:
    value = unicodedata.numeric(match[0], None)
    return f" {numbers.cardinal(int(value))} " if value is not None else " "


def finish(text: str) -> str:
    """Return a paragraph with a capital at its beginning and an end mark; only its pauses if it has no words."""
    return closed(opened(text)) if has_words(text) else "".join(marks.PAUSE.findall(text))


def opened(text: str) -> str:
    """Return ``text`` with a capital at its beginning. Words such as "iPhone" are not changed."""
    match = _SPOKEN.search(text)
    if match is None or not match[0].islower() or text[match.end() : match.end() + 1].isupper():
        return text
    return text[: match.start()] + match[0].upper() + text[match.end() :]


def has_words(text: str) -> bool:
    """Return whether ``text`` contains a letter, a digit or a word with a pronunciation."""
    return _SPOKEN.search(text) is not None


def open_end(text: str) -> str:
    """Return ``text`` without commas and dashes at its end, as ``closed`` removes them, but without a full stop."""
    return _END_COMMA.sub("", text)


def closed(text: str) -> str:
    """Return ``text`` with a full stop at its end, if it has no end mark."""
    pauses = _END_PAUSES.search(text) if marks.PAUSE.search(text) else None
    tail = pauses[0].replace(" ", "") if pauses else ""
    text = _END_COMMA.sub("", text[: len(text) - len(pauses[0])] if pauses else text)
    return f"{text if not text or _END.search(text) else f'{text}.'}{tail}"
