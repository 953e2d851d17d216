"""Checks the speech of one piece of text while it is made."""

from __future__ import annotations

from enum import StrEnum

from engine.protocol.request import AudioChunk, FinishReason
from server.guards.activity import SpeechActivity
from server.guards.expectation import Expectation, Paces, expected_speech
from server.guards.repetition import CodeCycles

_LONGEST_SILENCE = 3.0
"""Seconds of silence at the start or inside speech that are still plausible."""
_LONGEST_REPETITION = 15
"""Frames of a repetition that are still plausible: 1.2 s of one sound."""


class Fault(StrEnum):
    """What is wrong with the speech of a piece.

    SILENT: no speech, or a long silence in it. RUNAWAY: much longer than the text. TRUNCATED: much shorter than the
    text. REPEATING: the same codes again and again. LENGTH: stopped at a length limit that the client did not set.
    LONG: longer than usual for a very short text, which often means sounds after its end. WORDS: words of the text are
    missing, or others were inserted (``WordCheck``). LONG and WORDS are found only at the end, and are only a reason to
    try again.
    """

    SILENT = "silent"
    RUNAWAY = "runaway"
    TRUNCATED = "truncated"
    REPEATING = "repeating"
    LENGTH = "length"
    LONG = "long"
    WORDS = "words"


class PieceCheck:
    """Checks the chunks of one piece. Call ``add`` for each chunk, and ``end`` after the last one.

    Args:
        text: the text that is spoken, or its beginning.
        paces: of the voice; None if they are unknown. Durations are then not checked.
        own_limit: whether the client set ``max_new_tokens``. Speech that is cut there is no fault.
    """

    def __init__(self, text: str, paces: Paces | None, *, own_limit: bool = False) -> None:
        self._text, self._paces = text, paces
        self._expected: Expectation | None = None
        self._own_limit = own_limit
        self._cycles = CodeCycles()
        self.activity = SpeechActivity()

    @property
    def text_too_long(self) -> bool:
        """Whether the text needs more than the speech so far, even at the fastest pace."""
        return self._paces is not None and self.activity.speech_seconds < self._range(self._paces).shortest

    def extend(self, text: str) -> None:
        """Append text that is spoken, too."""
        self._text += text
        self._expected = None

    def add(self, chunk: AudioChunk) -> Fault | None:
        """Return what is wrong with the piece up to and including ``chunk``."""
        self.activity.add(chunk.samples)
        self._cycles.add(chunk.codes[:, 0])
        if self.activity.longest_gap > _LONGEST_SILENCE:
            return Fault.SILENT
        if self._cycles.repeated > max(_LONGEST_REPETITION, 2 * self._cycles.period):
            return Fault.REPEATING
        if self._paces is not None and self.activity.speech_seconds > self._range(self._paces).longest:
            return Fault.RUNAWAY
        return None

    def end(self, reason: FinishReason) -> Fault | None:
        """Return what is wrong with the complete piece, which ended for ``reason``."""
        if reason is FinishReason.CANCELLED:
            return None
        if reason is FinishReason.LENGTH:
            return None if self._own_limit else Fault.LENGTH
        if self.activity.first is None and any(map(str.isalnum, self._text)):
            return Fault.SILENT
        if self._paces is None:
            return None
        if self.text_too_long:
            return Fault.TRUNCATED
        usual = self._range(self._paces).usual
        return Fault.LONG if usual is not None and self.activity.speech_seconds > usual else None

    def _range(self, paces: Paces) -> Expectation:
        """Return the expected range for the text so far."""
        if self._expected is None:
            self._expected = expected_speech(self._text, paces)
        return self._expected
