"""A piece of a stream of speech: what it says, and where in the stream."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from engine.protocol.engine import AudioStream


@dataclass(slots=True)
class SpokenPiece:
    """A piece that has begun. Its stream sets the other fields as they become known.

    start, end: its first sample in the stream, and the one after its last. text: None while more may follow. language:
    as in its engine request. complete: False if the speech was cut before the end of the text.
    """

    start: int
    language: str
    text: str | None = None
    end: int | None = None
    complete: bool = True


class SpokenStream(AudioStream, Protocol):
    """An AudioStream of several pieces. spoken: the pieces that have begun, for the consumer to take."""

    spoken: deque[SpokenPiece]
