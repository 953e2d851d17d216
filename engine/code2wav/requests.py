"""Tracks the streams of stage 2 from the records of the talker and of the listeners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.schedule import Progress
from engine.protocol.messages import Announcement
from engine.protocol.request import CODEBOOKS, Completion, FinishReason
from engine.transfer import Endpoint, Kind, Record


@dataclass(slots=True, eq=False)
class Stream:
    """A stream on its way through.

    codes: int16 [n, 16] of frames not yet decoded, as they came; row: the decoder's, once it has begun; terminal: its
    END or FAIL, when it came; unwanted: nobody listens any more.
    """

    announcement: Announcement
    progress: Progress
    codes: bytearray = field(default_factory=bytearray)
    row: int | None = None
    terminal: Record | None = None
    unwanted: bool = False

    def drop(self) -> None:
        """Decode nothing more of it."""
        self.unwanted = True
        self.codes.clear()
        self.progress.pending = 0


class StreamTable:
    """frames: where codec frames come from; audio: where chunks of samples go."""

    def __init__(self, frames: Endpoint, audio: Endpoint) -> None:
        self._frames, self._audio = frames, audio
        self.streams: dict[int, Stream] = {}
        """By number, from their announcement until they are forgotten."""
        self._ended: set[int] = set()

    def take(self) -> None:
        """Whatever has come."""
        self._take_frames()
        self._take_cancellations()

    def finished(self) -> list[tuple[int, Record]]:
        """Streams that have nothing left to decode, each with its END or FAIL."""
        return [
            (number, stream.terminal)
            for number in self._ended
            if (stream := self.streams[number]).terminal is not None and not stream.progress.pending
        ]

    def next_codes(self, numbers: Iterable[int], frames: int) -> NDArray[np.int16]:
        """The next frames of each stream, [streams, frames, 16], which are decoded now."""
        size = frames * CODEBOOKS * 2
        taken = []
        for number in numbers:
            waiting = self.streams[number].codes
            taken.append(waiting[:size])
            del waiting[:size]
        return np.frombuffer(b"".join(taken), "<i2").reshape(-1, frames, CODEBOOKS)

    def forget(self, number: int) -> Stream:
        """The stream, which has ended for its listener."""
        self._ended.discard(number)
        return self.streams.pop(number)

    def _take_frames(self) -> None:
        for record in self._frames.receive():
            match record.kind:
                case Kind.OPEN:
                    announcement = Announcement.from_bytes(record.payload)
                    self.streams[record.stream] = Stream(announcement, Progress(announcement.realtime))
                    self._audio.open(record.stream)
                case Kind.DATA:
                    self._append(record)
                case Kind.END | Kind.FAIL:
                    self._mark_ended(record)

    def _append(self, record: Record) -> None:
        stream = self.streams.get(record.stream)
        if stream is not None and not stream.unwanted:
            stream.codes += record.payload
            stream.progress.pending += record.units

    def _mark_ended(self, record: Record) -> None:
        stream = self.streams.get(record.stream)
        if stream is not None:
            self._ended.add(record.stream)
            stream.terminal = record
            stream.progress.ended = True
            if record.kind is Kind.FAIL or _is_cancelled(record):
                stream.drop()

    def _take_cancellations(self) -> None:
        """Nobody listens to a stream any more: the talker is told, and its END comes back the usual way."""
        for record in self._audio.receive():
            stream = self.streams.get(record.stream)
            if record.kind is Kind.CANCEL and stream is not None:
                stream.drop()
                self._frames.cancel(record.stream)


def _is_cancelled(record: Record) -> bool:
    """Whether an END is that of an utterance that was given up. A probe's has no payload."""
    if not record.payload:
        return False
    return Completion.from_bytes(record.payload).finish_reason is FinishReason.CANCELLED
