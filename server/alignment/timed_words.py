"""The words of an utterance with their times, in little memory: finished requests keep them for an hour."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_DIGITS = 3
"""Times are rounded to milliseconds; the frames of the aligner are 10 ms long."""


@dataclass(frozen=True, slots=True)
class WordTime:
    """A spoken word. word: as in the text, with its punctuation. start, end: seconds from the start of the audio."""

    word: str
    start: float
    end: float

    def fields(self) -> dict[str, Any]:
        """Return the word as JSON fields."""
        return {"word": self.word, "start": round(self.start, _DIGITS), "end": round(self.end, _DIGITS)}


class TimedWords:
    """Words with their times, in order. Takes about 20 bytes a word."""

    __slots__ = ("_text", "_times")

    def __init__(self) -> None:
        self._text: list[str] = []
        """The words of each piece, separated by spaces: no word has white space."""
        self._times = array("f")

    def __len__(self) -> int:
        return len(self._times) // 2

    def extend(self, words: Iterable[WordTime]) -> None:
        """Append ``words``."""
        kept = list(words)
        if kept:
            self._text.append(" ".join(word.word for word in kept))
            self._times.extend(time for word in kept for time in (word.start, word.end))

    def fields(self) -> list[dict[str, Any]]:
        """Return the words as JSON fields."""
        words = (word for text in self._text for word in text.split(" "))
        times = zip(self._times[::2], self._times[1::2], strict=True)
        return [WordTime(word, *each).fields() for word, each in zip(words, times, strict=True)]
