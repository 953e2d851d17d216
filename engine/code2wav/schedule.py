"""Who is decoded next, and how many frames: chunks follow the listeners' playback.

A stream's first chunk is made as soon as it can be heard. From then on its listener has ``made`` frames to play, and
the next chunk is due when only ``lead`` seconds of them are left: late enough to be large, early enough not to be
heard. Of the streams that are due the one that runs dry first leads, and it gets no more frames at once than it has in
hand: then a chunk is made in less time than any listener has left, also when all of them have just begun. Streams
nobody listens to yet are decoded in chunks as large as allowed, when no listener is waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from engine.config import Code2WavConfig
from engine.protocol.request import MOST_CHUNK_FRAMES, SAMPLE_RATE, SAMPLES_PER_FRAME

FRAME_SECONDS = SAMPLES_PER_FRAME / SAMPLE_RATE
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, MOST_CHUNK_FRAMES)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Frames and streams that are decoded together come in these sizes: each pair is compiled on its first use."""
COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Streams of the batches that a GPU has captured, to the next of which a batch is filled up."""
_BATCH_FRAMES = {False: 24, True: 256}
"""Unless set: of all streams together, as they come and filled up."""
_URGENT_FRAMES = 8
"""Larger batches are of listeners who have some seconds in hand and can wait for a compilation."""


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

    @property
    def ready(self) -> int:
        """Frames that can be decoded and sent."""
        return min(self.pending, self.room)

    @property
    def runs_dry(self) -> float:
        """When the listener will have played all that was made: before any time there is, where nothing was yet."""
        if not self.realtime:
            return inf
        return -inf if self.started is None else self.started + self.made * FRAME_SECONDS

    def decoded(self, frames: int, now: float) -> None:
        """Frames were made at ``now``. A listener who had run dry by then has waited, and plays on from here."""
        if self.started is None:
            self.started = now
        elif self.realtime:
            self.started += max(0.0, now - self.runs_dry)
        self.pending -= frames
        self.made += frames


@dataclass(frozen=True, slots=True)
class Batch:
    """Streams to decode together, ``frames`` of each."""

    streams: list[int]
    frames: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rules. Times are in seconds; padded: any number of streams can be decoded together."""

    first_frames: int
    max_chunk_frames: int
    max_batch_frames: int
    lead: float
    padded: bool = False

    @staticmethod
    def of(config: Code2WavConfig, *, padded: bool) -> Schedule:
        """padded: see ``engine.code2wav.base.Decoder``."""
        return Schedule(
            config.first_frames,
            config.max_chunk_frames,
            batch_limit(config, padded=padded),
            config.lead_ms / 1000,
            padded,
        )

    def due(self, progress: Progress, now: float) -> float:
        """When the stream's next chunk should be made; infinity while only more frames can tell."""
        ready = progress.ready
        complete = progress.ended or ready >= self.max_chunk_frames
        if ready == 0:
            return inf
        if not progress.realtime:
            return now if complete else inf
        if progress.started is None:
            return -inf if complete or ready >= self.first_frames else inf
        deadline = progress.runs_dry - self.lead
        return min(deadline, now) if complete else deadline

    def pick(self, streams: Mapping[int, Progress], now: float) -> Batch | float:
        """The most urgent batch, or when to look again (infinity: when something arrives)."""
        due = {stream: self.due(progress, now) for stream, progress in streams.items()}
        able = sorted((stream for stream in due if due[stream] <= now), key=lambda stream: streams[stream].runs_dry)
        if not able:
            return min(due.values(), default=inf)
        frames = self._chunk(streams[able[0]], now)
        together = [stream for stream in able if streams[stream].ready >= frames]
        return Batch(together[: self._count(len(together), frames)], frames)

    def _count(self, waiting: int, frames: int) -> int:
        """How many of the streams that wait are decoded together."""
        most = max(1, self.max_batch_frames // frames)
        return min(waiting, _largest(COUNTS, most)) if self.padded else _largest(BATCHES, min(waiting, most))

    def _chunk(self, progress: Progress, now: float) -> int:
        most = min(progress.ready, self.max_chunk_frames)
        if progress.realtime:
            in_hand = round((progress.runs_dry - now) / FRAME_SECONDS) if progress.started else self.first_frames
            most = min(most, max(1, in_hand))
        return _largest(CHUNKS, most)


def batch_limit(config: Code2WavConfig, *, padded: bool) -> int:
    """The most frames of all streams decoded together."""
    return config.max_batch_frames or _BATCH_FRAMES[padded]


def urgent_shapes(streams: int, max_chunk_frames: int, max_batch_frames: int) -> list[tuple[int, int]]:
    """(streams, frames) of the batches that somebody may be waiting for: one listener's, and those of a beginning."""
    most = min(_URGENT_FRAMES, max_batch_frames)
    chunks = [frames for frames in CHUNKS if frames <= max_chunk_frames]
    together = [count for count in BATCHES if 1 < count <= streams]
    alone = [(1, frames) for frames in chunks]
    return alone + [(count, frames) for count in together for frames in chunks if count * frames <= most]


def _largest(sizes: tuple[int, ...], limit: int) -> int:
    return max(size for size in sizes if size <= limit)
