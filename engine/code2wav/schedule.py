"""Who is decoded next, and how many frames: chunks follow the listeners' playback.

A stream's first chunk is made as soon as it can be heard. From then on its listener has ``made`` frames to play, and
the next chunk is due when only ``lead`` seconds of them are left: late enough to be large, early enough not to be
heard. Streams nobody listens to yet are decoded in chunks as large as allowed, when no listener is waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from engine.request import SAMPLE_RATE, SAMPLES_PER_FRAME

FRAME_SECONDS = SAMPLES_PER_FRAME / SAMPLE_RATE
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Frames and streams that are decoded together come in these sizes: each pair is compiled on its first use."""


@dataclass(slots=True)
class Progress:
    """How far a stream is.

    pending: frames that wait to be decoded; made: frames decoded; started: when the first were, in seconds of
    ``time.monotonic``; ended: no more frames come; room: frames its listener still has credit for.
    """

    realtime: bool
    pending: int = 0
    made: int = 0
    started: float | None = None
    ended: bool = False
    room: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Streams to decode together, ``frames`` of each."""

    streams: list[int]
    frames: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rules. Times are in seconds."""

    first_frames: int
    max_chunk_frames: int
    max_batch_frames: int
    lead: float

    def due(self, progress: Progress, now: float) -> float:
        """When the stream's next chunk should be made; infinity while only more frames can tell."""
        ready = min(progress.pending, progress.room)
        complete = progress.ended or ready >= self.max_chunk_frames
        if ready == 0:
            return inf
        if not progress.realtime:
            return now if complete else inf
        if progress.started is None:
            return -inf if complete or ready >= self.first_frames else inf
        deadline = progress.started + progress.made * FRAME_SECONDS - self.lead
        return min(deadline, now) if complete else deadline

    def pick(self, streams: Mapping[int, Progress], now: float) -> Batch | float:
        """The most urgent batch, or when to look again (infinity: when something arrives)."""
        due = {stream: self.due(progress, now) for stream, progress in streams.items()}
        leader = min(due, key=due.__getitem__, default=None)
        if leader is None or due[leader] > now:
            return inf if leader is None else due[leader]
        frames = self._chunk(streams[leader])
        others = [
            stream
            for stream, when in due.items()
            if when <= now and stream != leader and self._chunk(streams[stream]) >= frames
        ]
        others.sort(key=due.__getitem__)
        together = _largest(BATCHES, min(1 + len(others), max(1, self.max_batch_frames // frames)))
        return Batch([leader, *others][:together], frames)

    def _chunk(self, progress: Progress) -> int:
        ready = min(progress.pending, progress.room, self.max_chunk_frames)
        return _largest(CHUNKS, ready) if ready else 0


def _largest(sizes: tuple[int, ...], limit: int) -> int:
    return max(size for size in sizes if size <= limit)
