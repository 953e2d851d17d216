"""Tracks the streams of stage 2: frames arrive from the talker, cancellations from the engine client."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.schedule import Progress
from engine.protocol.messages import StreamHeader
from engine.protocol.request import CODEBOOKS, Completion, FinishReason
from engine.transfer import Endpoint, Kind, MultiEndpoint, Record, rows_of


@dataclass(slots=True, eq=False)
class Stream:
    """The state of one stream.

    codes: frames not yet decoded, little-endian int16 [n, 16], as received. row: the decoder row, None until the
    stream begins. terminal: the END or FAIL record, None until it arrives. aborted: the stream failed or was
    cancelled; decode no more of it. opened: when it was announced (``time.monotonic``).
    """

    header: StreamHeader
    progress: Progress
    codes: bytearray = field(default_factory=bytearray)
    row: int | None = None
    terminal: Record | None = None
    aborted: bool = False
    opened: float = field(default_factory=time.monotonic)

    def abort(self) -> None:
        """Discard the frames not yet decoded, and decode no more of this stream."""
        self.aborted = True
        self.codes.clear()
        self.progress.pending = 0


class StreamTable:
    """All streams of stage 2.

    frames: link from the talker, carries codec frames. audio: link to the engine client, carries audio chunks.
    """

    def __init__(self, frames: Endpoint, audio: MultiEndpoint) -> None:
        self._frames, self._audio = frames, audio
        self.streams: dict[int, Stream] = {}
        """Streams by number, from OPEN until ``remove``."""
        self._ended: set[int] = set()

    def receive(self) -> None:
        """Process all records received from the talker and the engine client."""
        self._receive_frames()
        self._receive_cancellations()

    def finished(self) -> list[tuple[int, Record]]:
        """Return the ended streams that have no frames left to decode, each with its END or FAIL."""
        return [
            (number, stream.terminal)
            for number in self._ended
            if (stream := self.streams[number]).terminal is not None and not stream.progress.pending
        ]

    def next_codes(self, numbers: Iterable[int], frames: int) -> NDArray[np.int16]:
        """Remove the next ``frames`` frames of each stream from its buffer; return them as [streams, frames, 16]."""
        size = frames * CODEBOOKS * 2
        chunks = []
        for number in numbers:
            buffer = self.streams[number].codes
            chunks.append(buffer[:size])
            del buffer[:size]
        return np.frombuffer(b"".join(chunks), "<i2").reshape(-1, frames, CODEBOOKS)

    def remove(self, number: int) -> Stream:
        """Remove a stream that has ended for its client, and return it."""
        self._ended.discard(number)
        return self.streams.pop(number)

    def _receive_frames(self) -> None:
        for record in self._frames.receive():
            match record.kind:
                case Kind.OPEN:
                    header = StreamHeader.from_bytes(record.payload)
                    self.streams[record.stream] = Stream(header, Progress(header.realtime))
                    self._audio.open(record.stream)
                case Kind.ROWS:
                    for number, codes in rows_of(record):
                        self._append(number, codes)
                case Kind.END | Kind.FAIL:
                    self._mark_ended(record)

    def _append(self, number: int, codes: bytes) -> None:
        """Append the codes of a frame."""
        stream = self.streams.get(number)
        if stream is not None and not stream.aborted:
            stream.codes += codes
            stream.progress.pending += 1

    def _mark_ended(self, record: Record) -> None:
        stream = self.streams.get(record.stream)
        if stream is not None:
            self._ended.add(record.stream)
            stream.terminal = record
            stream.progress.ended = True
            if record.kind is Kind.FAIL or _is_cancelled(record):
                stream.abort()

    def _receive_cancellations(self) -> None:
        """Drop the streams that were cancelled, and tell the talker. Its END arrives as for any other stream."""
        for record in self._audio.receive():
            stream = self.streams.get(record.stream)
            if record.kind is Kind.CANCEL and stream is not None:
                stream.abort()
                self._frames.cancel(record.stream)


def _is_cancelled(record: Record) -> bool:
    """Return whether an END belongs to a cancelled utterance. The END of a probe has no payload."""
    if not record.payload:
        return False
    return Completion.from_bytes(record.payload).finish_reason is FinishReason.CANCELLED
