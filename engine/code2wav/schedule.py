"""Selects the streams to decode next and the chunk size. Chunk sizes follow the playback of real-time clients.

A stream's first chunk is decoded as soon as ``first_frames`` frames have arrived. After the first chunk, the client
plays the decoded frames. The next chunk is due when only ``lead`` seconds of audio are left: late enough for a large
chunk, early enough to prevent an underrun. Of the streams that are due, the most urgent one, whose client runs out of
audio first, sets the chunk size.

On a CPU, a chunk never has more frames than the most urgent client has buffered; as decoding is faster than playback,
no client runs dry. On a GPU, decoding takes about a millisecond, but each batch costs the host time, and each chunk
costs the HTTP process time. So there, chunks have all frames that have arrived, and real-time streams with many
frames do not join a batch of small chunks. Other streams do.

Where the talker is slower than playback, underruns are certain: a stream that had many gets chunks of several frames,
which cost less each, so the pauses are fewer and shorter in all. Streams that are not real-time come last: they wait
for a chunk of the largest size or their last frame, and set the chunk size only when no real-time stream is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from engine.config import Code2WavConfig
from engine.protocol.request import MAX_CHUNK_FRAMES, SAMPLE_RATE, SAMPLES_PER_FRAME

FRAME_SECONDS = SAMPLES_PER_FRAME / SAMPLE_RATE
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, MAX_CHUNK_FRAMES)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
"""``CHUNKS`` are the frames per stream, ``BATCHES`` the streams per batch. Each pair is compiled on first use."""
PADDED_BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Streams per captured batch on a GPU. A batch is padded to the next of these sizes."""
_BATCH_FRAMES = {False: 24, True: 256}
"""Default of ``max_batch_frames``: total frames per batch, without padding (False) and with padding (True)."""
_TOLERATED_UNDERRUNS = 0.1
"""Seconds of underruns, in total, after which a stream's chunks have at least ``_REFILL_FRAMES``.

A player with a usual buffer has not paused before.
"""
_REFILL_FRAMES = 4
_GPU_CHUNK_FRAMES = 4
"""Minimum frames of a chunk after the first one on a GPU, if the client has more than ``_URGENT_SECONDS`` of audio."""
_URGENT_SECONDS = 0.06
_URGENT_FRAMES = 8
"""Maximum total frames of a warm-up batch with more than one stream.

Clients of larger batches have seconds of audio buffered, and can wait for a compilation.
"""


@dataclass(slots=True)
class Progress:
    """Progress of one stream.

    realtime: a client plays the audio while it is decoded. pending, decoded: frames not yet decoded, and decoded.
    playback_origin: when playback began (``time.monotonic``), plus the duration of all underruns; None before the first
    chunk. ended: no more frames arrive. credit: frames of credit left on the audio link. underruns: their total
    duration in seconds.
    """

    realtime: bool
    pending: int = 0
    decoded: int = 0
    playback_origin: float | None = None
    ended: bool = False
    credit: int = 0
    underruns: float = 0.0

    @property
    def ready(self) -> int:
        """Frames that can be decoded and sent now."""
        return min(self.pending, self.credit)

    @property
    def underrun_at(self) -> float:
        """When the client's audio runs out (``time.monotonic``): -inf before the first chunk, inf if not real-time."""
        if not self.realtime:
            return inf
        return -inf if self.playback_origin is None else self.playback_origin + self.decoded * FRAME_SECONDS

    def record_decoded(self, frames: int, now: float) -> None:
        """Count ``frames`` as decoded at ``now``. After an underrun, the client resumes playback at ``now``."""
        if self.playback_origin is None:
            self.playback_origin = now
        elif self.realtime:
            underrun = max(0.0, now - self.underrun_at)
            self.playback_origin += underrun
            self.underruns += underrun
        self.pending -= frames
        self.decoded += frames


@dataclass(frozen=True, slots=True)
class Batch:
    """Streams to decode together, ``frames`` of each."""

    streams: list[int]
    frames: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The scheduling rules.

    lead: seconds of audio left to play when the next chunk is due. padded: see ``engine.code2wav.base.Decoder``; only
    decoders on a GPU are padded.
    """

    first_frames: int
    max_chunk_frames: int
    max_batch_frames: int
    lead: float
    padded: bool = False

    @staticmethod
    def from_config(config: Code2WavConfig, *, padded: bool) -> Schedule:
        """Create the schedule that the configuration describes. padded: see ``engine.code2wav.base.Decoder``."""
        return Schedule(
            config.first_frames,
            config.max_chunk_frames,
            batch_limit(config, padded=padded),
            config.lead_ms / 1000,
            padded,
        )

    def due(self, progress: Progress, now: float) -> float:
        """Return when the stream's next chunk is due; inf while it must wait for more frames or credit."""
        ready = progress.ready
        complete = progress.ended or ready >= self.max_chunk_frames
        if ready == 0:
            return inf
        if not progress.realtime:
            return now if complete else inf
        if progress.playback_origin is None:
            return -inf if complete or ready >= self.first_frames else inf
        if complete:
            return now
        if ready < self._min_frames(progress):
            return inf
        if self.padded and ready < _GPU_CHUNK_FRAMES:
            return progress.underrun_at - min(self.lead, _URGENT_SECONDS)
        return progress.underrun_at - self.lead

    def next_due(self, streams: Mapping[int, Progress], now: float) -> float:
        """Return when the next chunk of any stream is due; inf if all must wait for more frames or credit."""
        return min((self.due(progress, now) for progress in streams.values()), default=inf)

    def next_batch(self, streams: Mapping[int, Progress], now: float) -> Batch | None:
        """Return the most urgent batch that is due, or None if no stream is due."""
        due_streams = [stream for stream, progress in streams.items() if self.due(progress, now) <= now]
        if not due_streams:
            return None
        due_streams.sort(key=lambda stream: streams[stream].underrun_at)
        frames = self._chunk_frames(streams[due_streams[0]], now)
        batch = [stream for stream in due_streams if self._joins(streams[stream], frames, now)]
        return Batch(batch[: self._batch_size(len(batch), frames)], frames)

    def _joins(self, progress: Progress, frames: int, now: float) -> bool:
        """Return whether a stream that is due joins a batch of ``frames`` frames per stream."""
        waits = self.padded and progress.realtime and self._chunk_frames(progress, now) > 2 * frames
        return progress.ready >= frames and not waits

    def _batch_size(self, waiting: int, frames: int) -> int:
        """Return how many of the ``waiting`` streams to decode together."""
        limit = max(1, self.max_batch_frames // frames)
        return min(waiting, _largest(PADDED_BATCHES, limit)) if self.padded else _largest(BATCHES, min(waiting, limit))

    def _chunk_frames(self, progress: Progress, now: float) -> int:
        max_frames = min(progress.ready, self.max_chunk_frames)
        if progress.realtime and progress.playback_origin is None:
            max_frames = min(max_frames, self.first_frames)
        elif progress.realtime and not self.padded:
            buffered = round((progress.underrun_at - now) / FRAME_SECONDS)
            max_frames = min(max_frames, max(self._min_frames(progress), buffered))
        return _largest(CHUNKS, max_frames)

    def _min_frames(self, progress: Progress) -> int:
        """Return the minimum frames of a chunk after the first one."""
        return min(_REFILL_FRAMES, self.max_chunk_frames) if progress.underruns > _TOLERATED_UNDERRUNS else 1


def batch_limit(config: Code2WavConfig, *, padded: bool) -> int:
    """Return the maximum total frames of a batch."""
    return config.max_batch_frames or _BATCH_FRAMES[padded]


def urgent_shapes(streams: int, max_chunk_frames: int, max_batch_frames: int) -> list[tuple[int, int]]:
    """Return (streams, frames) of the batches to warm up.

    Clients may wait for these: single-stream batches of every chunk size, and the small batches of streams that begin.
    """
    max_frames = min(_URGENT_FRAMES, max_batch_frames)
    chunks = [frames for frames in CHUNKS if frames <= max_chunk_frames]
    batches = [count for count in BATCHES if 1 < count <= streams]
    single = [(1, frames) for frames in chunks]
    return single + [(count, frames) for count in batches for frames in chunks if count * frames <= max_frames]


def _largest(sizes: tuple[int, ...], limit: int) -> int:
    return max(size for size in sizes if size <= limit)
