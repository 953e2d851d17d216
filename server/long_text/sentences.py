"""Splits text into sentences, and long sentences into parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from sentencex import segment

from server.text.language import CODES

_WINDOW = 4000
"""Characters that are segmented at a time, so that the first sentence of a book does not wait for the last."""
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
"""Scripts in order of precedence. Japanese comes before Chinese, because it also uses Chinese characters."""
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")


def sentences(text: str, language: str) -> Iterator[str]:
    """Yield the sentences of ``text``, lazily. Concatenated, they equal ``text`` except for white space.

    ``language`` is the checkpoint's name for the language, in lower case. For any other value the script decides.
    The end of a paragraph ends a sentence and becomes a line break; other white space becomes one space.
    """
    code = CODES.get(language) or _code_of(text[:_WINDOW])
    for paragraph in _PARAGRAPH.split(text.replace("\r\n", "\n")):
        words = " ".join(paragraph.split())
        if words:
            yield from _of_paragraph(words + "\n", code)


def _code_of(text: str) -> str:
    return next((code for code, letters in _SCRIPTS if letters.search(text)), "en")


def _of_paragraph(text: str, code: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, window by window.

    The last sentence of a window may continue after it, so the next window starts with that sentence.
    """
    start = 0
    while start < len(text):
        end = _window_end(text, start)
        found = _joined(segment(code, text[start:end]))
        if end < len(text) and len(found) > 1:
            found.pop()
        yield from found
        start += sum(len(sentence) for sentence in found)


def _joined(found: list[str]) -> list[str]:
    """Join sentences that go on in lower case after "!" or "?", as in "What a day! exclaimed her brother".

    Sentences that begin in lower case themselves stay as they are.
    """
    joined: list[str] = []
    for sentence in found:
        before = joined[-1] if joined else ""
        if sentence[:1].islower() and before[:1].isupper() and before.rstrip().endswith(("!", "?")):
            joined[-1] += sentence
        else:
            joined.append(sentence)
    return joined


def _window_end(text: str, start: int) -> int:
    """Return the end of the window that starts at ``start``: between words if possible."""
    end = start + _WINDOW
    if end >= len(text):
        return len(text)
    return text.rfind(" ", start, end) + 1 or end


_WIDE = 3
"""Weight of a wide character: a Chinese character or a Korean syllable takes as long to say as three letters."""
_SENTENCE_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*""")
_CUTS = (
    _SENTENCE_END,
    re.compile(r"""[,;:–—]["'”’»)\]]*(?=\s)|[、，；：]"""),
    re.compile(r"\s"),
)
"""Where to cut a long sentence, best first: after an inner sentence, after a clause, between words."""


def weight(text: str) -> int:
    """Return how long ``text`` takes to say, in letters."""
    if text.isascii():
        return len(text)
    return sum(_WIDE if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def ends_inner_sentence(part: str) -> bool:
    """Return whether a part of a sentence, with the white space after it, ends with the mark of a sentence end."""
    ends = [mark.end() for mark in _SENTENCE_END.finditer(part)]
    return bool(ends) and not part[ends[-1] :].strip()


def cut(sentence: str, longest: int) -> Iterator[str]:
    """Yield parts of ``sentence`` of about the same weight, none above ``longest``."""
    while (total := weight(sentence)) > longest:
        at = _cut_at(sentence, total / -(-total // longest), longest)
        yield sentence[:at]
        sentence = sentence[at:]
    yield sentence


def _cut_at(sentence: str, wanted: float, longest: int) -> int:
    """Return the index of the best cut near weight ``wanted``: at the best mark in ``_CUTS``, else inside a word."""
    lower, best, upper = (_index_at(sentence, bound) for bound in (wanted / 2, wanted, longest))
    for marks in _CUTS:
        ends = [mark.end() for mark in marks.finditer(sentence, 0, upper) if mark.end() >= lower]
        if ends:
            return min(ends, key=lambda end: abs(end - best))
    return best


def _index_at(text: str, bound: float) -> int:
    """Return how many leading characters of ``text`` weigh at most ``bound``; at least one."""
    total = 0
    for index, letter in enumerate(text):
        total += weight(letter)
        if total > bound:
            return max(1, index)
    return len(text)
