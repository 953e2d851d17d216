"""A piece of a stream of speech: what it says, and where in the stream."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from engine.protocol.engine import AudioStream


@dataclass(frozen=True, slots=True)
class SpokenPiece:
    """A piece that has ended.

    text, language: as in its engine request. start, end: its first sample in the stream, and the one after its last.
    complete: False if the speech was cut before the end of the text.
    """

    text: str
    language: str
    start: int
    end: int
    complete: bool


class SpokenStream(AudioStream, Protocol):
    """An AudioStream of several pieces. spoken: the pieces that have ended, for the consumer to take."""

    spoken: deque[SpokenPiece]
