"""The sentences of a text of any length, in each of the languages that are spoken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentencex import segment

_WINDOW = 4000
"""Characters that are looked at together: the first sentence of a book must not wait for the last."""
_CODES = {
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
"""Japanese before Chinese, whose characters it uses too."""
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")


def sentences(text: str, language: str) -> Iterator[str]:
    """One after the other, found as they are asked for. Put together they are ``text`` in other white space.

    ``language`` is a checkpoint's name for it, in small letters; where it is no language's, the script decides.
    A paragraph ends a sentence, and with a line break; other white space becomes one space.
    """
    code = _CODES.get(language) or _code_of(text[:_WINDOW])
    for paragraph in _PARAGRAPH.split(text.replace("\r\n", "\n")):
        words = " ".join(paragraph.split())
        if words:
            yield from _of_paragraph(words + "\n", code)


def _code_of(text: str) -> str:
    return next((code for code, letters in _SCRIPTS if letters.search(text)), "en")


def _of_paragraph(text: str, code: str) -> Iterator[str]:
    """What stands last in a window may go on after it, so the next window begins there."""
    start = 0
    while start < len(text):
        end = _window_end(text, start)
        found: list[str] = segment(code, text[start:end])
        if end < len(text) and len(found) > 1:
            found.pop()
        yield from found
        start += sum(len(sentence) for sentence in found)


def _window_end(text: str, start: int) -> int:
    """Where a window ends: between words, if it can."""
    end = start + _WINDOW
    if end >= len(text):
        return len(text)
    return text.rfind(" ", start, end) + 1 or end
