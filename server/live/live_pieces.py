"""Splits live text into pieces as it arrives, each of which becomes one utterance of the engine."""

from __future__ import annotations

import math
import re

from server.live.messages import FirstWord
from server.long_text.pieces import (
    CLAUSE_PAUSE,
    PARAGRAPH_PAUSE,
    SENTENCE_PAUSE,
    SHORTEST,
    ends_with_abbreviation,
    in_one_paragraph,
)
from server.long_text.segments import MAX_PAUSE
from server.long_text.sentences import weight
from server.text.frontend import Spoken

_TOKEN = re.compile(r"\s+|[^\s。！？]*[。！？]+[」』”’）]*|[^\s。！？]+")
_BETWEEN_WORDS = re.compile(r"(?:\s|[。！？][」』”’）]*)$")
_SENTENCE_END = re.compile(r"""(?:[.!?…]["'”’»)\]]*\s+|[。！？][」』”’）]*\s*)$""")
_CLAUSE_END = re.compile(r"""(?:[,;:–—]["'”’»)\]]*\s+|[、，；：]\s*)$""")
_PARAGRAPH_END = re.compile(r"\n\s*\n\s*$")
_TAIL = 24
"""Characters at the end of a piece that decide whether it may end there."""


class LivePiece:
    """A piece of live text. pause: seconds of silence before it. whole: synthesis starts when its text is complete.

    Attributes:
        weight: its length in letters.
        ready: whether synthesis can start: its whole text or, unless it is ``whole``, its first word is complete.
        ended: whether its text is complete.
    """

    def __init__(self, pause: float, *, whole: bool) -> None:
        self.pause, self.whole = pause, whole
        self.weight = 0
        self.tail = ""
        self.ready = self.ended = False
        self._first_word = FirstWord()
        self._untaken: list[str] = []

    def add(self, text: str) -> None:
        """Append ``text``."""
        self._untaken.append(text)
        self.weight += weight(text)
        self.tail = (self.tail + text)[-_TAIL:]
        self.ready = (not self.whole and self._first_word.add(text)) or self.ready

    def end(self) -> None:
        """Mark the text as complete."""
        self.ready = self.ended = True

    def take(self) -> str:
        """Return the text that was added since the last call, in one paragraph."""
        text = in_one_paragraph("".join(self._untaken))
        self._untaken.clear()
        return text.strip() if self.whole else text


class LivePieces:
    """The pieces of one live utterance.

    A piece ends where a pause is requested, at the end of a paragraph that is not very short, at the end of a sentence
    once it has half of the maximum length, at the end of a clause at the maximum, and at any word at 1.5 times the
    maximum. With ``sentences``, pieces are ``whole``. They end at each sentence that is not very short, without waiting
    for the next word, because the text front end returns the end of a sentence only when it is certain.

    longest: maximum weight of a piece; infinite for a voice that must not be split.
    """

    def __init__(self, longest: float, *, sentences: bool = False) -> None:
        self._longest, self._sentences = longest, sentences
        self._between = 0.0
        """Seconds of the pause before the next piece, unless one is requested."""
        self._shortest = SHORTEST if sentences else longest / 2
        """Minimum weight of a piece that ends with a sentence."""
        self._current: LivePiece | None = None
        self._count = 0
        self.pause = 0.0
        """Requested pause, in seconds, after the last piece."""

    def add(self, spoken: Spoken) -> list[LivePiece]:
        """Append text. Return the pieces that it begins."""
        begun: list[LivePiece] = []
        start = 0
        for end, seconds in [*spoken.pauses, (len(spoken.text), 0.0)]:
            for token in _TOKEN.findall(spoken.text[start:end]):
                self._add_token(token, begun)
            if self._sentences and self._current is not None and self._is_sentence(self._current):
                self._between = SENTENCE_PAUSE
                self.end()
            start = end
            if seconds:
                self.pause = min(MAX_PAUSE, self.pause + seconds)
                self.end()
        return begun

    def end(self) -> None:
        """End the current piece, if there is one."""
        if self._current is not None:
            self._current.end()
            self._current = None

    def _add_token(self, token: str, begun: list[LivePiece]) -> None:
        if self._current is not None and not token.isspace():
            pause = self._pause_before_word(self._current)
            if pause:
                self._between = pause
                self.end()
        if self._current is None:
            if token.isspace() and (self._count or self.pause):
                if self._between and _PARAGRAPH_END.search(token):
                    self._between = PARAGRAPH_PAUSE
                return
            self._current = LivePiece(self.pause or self._between, whole=self._sentences)
            self._count += 1
            self.pause = self._between = 0.0
            begun.append(self._current)
        self._current.add(token)

    def _is_sentence(self, piece: LivePiece) -> bool:
        """Return whether ``piece`` is long enough, and its text so far ends with a sentence."""
        return (
            piece.weight >= self._shortest
            and _SENTENCE_END.search(f"{piece.tail} ") is not None
            and not ends_with_abbreviation(piece.tail)
        )

    def _pause_before_word(self, piece: LivePiece) -> float:
        """Return the seconds of the pause after ``piece`` if it ends before the next word, else 0."""
        tail = piece.tail
        if not _BETWEEN_WORDS.search(tail):
            return 0.0
        if _PARAGRAPH_END.search(tail) and piece.weight >= SHORTEST and math.isfinite(self._longest):
            return PARAGRAPH_PAUSE
        if piece.weight < self._shortest:
            return 0.0
        if _SENTENCE_END.search(tail) and not ends_with_abbreviation(tail):
            return SENTENCE_PAUSE
        at_clause = piece.weight >= self._longest and _CLAUSE_END.search(tail) is not None
        return CLAUSE_PAUSE if at_clause or piece.weight >= 1.5 * self._longest else 0.0
