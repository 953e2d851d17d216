"""The loop of stage 2: frames come in, chunks of samples leave, by deadline and in batches."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isinf

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.decoder import StreamDecoder
from engine.code2wav.schedule import Batch, Progress, Schedule
from engine.config import Code2WavConfig
from engine.errors import EngineFailed
from engine.messages import Announcement
from engine.request import CODEBOOKS, AudioChunk, Completion, FinishReason
from engine.transfer import Endpoint, Kind, Record, Wakeup

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream on its way through.

    codes: frames [n, 16] not yet decoded; terminal: its END or FAIL, when it came; unwanted: nobody listens any more.
    """

    announcement: Announcement
    progress: Progress
    codes: list[NDArray[np.int16]] = field(default_factory=list)
    row: int | None = None
    terminal: Record | None = None
    unwanted: bool = False

    def drop(self) -> None:
        """Decode nothing more of it."""
        self.unwanted = True
        self.codes.clear()
        self.progress.pending = 0


class Code2WavStage:
    """Runs in a thread of its own until one of its links is gone.

    frames: where codec frames come from; audio: where chunks of samples go. Both are attached to ``wakeup``.
    """

    def __init__(
        self,
        decoder: StreamDecoder,
        config: Code2WavConfig,
        *,
        frames: Endpoint,
        audio: Endpoint,
        wakeup: Wakeup,
    ) -> None:
        self._decoder = decoder
        self._rows = decoder.free_rows
        self._schedule = Schedule(
            config.first_frames, config.max_chunk_frames, config.max_batch_frames, config.lead_ms / 1000
        )
        self._frames, self._audio, self._wakeup = frames, audio, wakeup
        self._streams: dict[int, _Stream] = {}
        self._batches = 0
        self._batch_rows = 0

    def run(self) -> None:
        """Until the talker's side is gone, or the audio's listener is."""
        while self._frames.alive and self._audio.alive:
            self._take_frames()
            self._take_cancellations()
            self._finish_ended()
            decision = self._decide()
            if isinstance(decision, Batch):
                self._decode(decision)
            else:
                self._wait(until=decision)

    def _take_frames(self) -> None:
        for record in self._frames.receive():
            match record.kind:
                case Kind.OPEN:
                    announcement = Announcement.from_bytes(record.payload)
                    self._streams[record.stream] = _Stream(announcement, Progress(announcement.realtime))
                    self._audio.open(record.stream)
                case Kind.DATA:
                    self._append(record)
                case Kind.END | Kind.FAIL:
                    self._mark_ended(record)

    def _append(self, record: Record) -> None:
        stream = self._streams.get(record.stream)
        if stream is not None and not stream.unwanted:
            stream.codes.append(np.frombuffer(record.payload, "<i2").reshape(-1, CODEBOOKS))
            stream.progress.pending += record.units

    def _mark_ended(self, record: Record) -> None:
        stream = self._streams.get(record.stream)
        if stream is not None:
            stream.terminal = record
            stream.progress.ended = True
            if record.kind is Kind.FAIL or _is_cancelled(record):
                stream.drop()

    def _take_cancellations(self) -> None:
        """Nobody listens to a stream any more: the talker is told, and its END comes back the usual way."""
        for record in self._audio.receive():
            stream = self._streams.get(record.stream)
            if record.kind is Kind.CANCEL and stream is not None:
                stream.drop()
                self._frames.cancel(record.stream)

    def _finish_ended(self) -> None:
        """Pass on the end of streams that have nothing left to decode."""
        for number, stream in list(self._streams.items()):
            terminal = stream.terminal
            if terminal is None or stream.progress.pending:
                continue
            self._forget(number)
            if terminal.kind is Kind.FAIL:
                self._audio.fail(number, terminal.payload)
            else:
                self._audio.end(number, self._ending(stream, terminal))

    def _ending(self, stream: _Stream, terminal: Record) -> bytes:
        probe = stream.announcement.probe
        if probe is None:
            return terminal.payload
        return json.dumps(probe | self._figures()).encode()

    def _figures(self) -> dict[str, int]:
        used, size = self._audio.fill
        return {
            "code2wav_streams": len(self._streams),
            "code2wav_rows": self._rows_used(),
            "code2wav_batches": self._batches,
            "code2wav_batch_rows": self._batch_rows,
            "audio_ring_used": used,
            "audio_ring_size": size,
            "context_hits": self._decoder.hits,
            "context_misses": self._decoder.misses,
        }

    def _rows_used(self) -> int:
        return self._rows - self._decoder.free_rows

    def _decide(self) -> Batch | float:
        able = {}
        for number, stream in self._streams.items():
            if stream.progress.pending and (stream.row is not None or self._decoder.free_rows):
                stream.progress.room = self._audio.credit(number)
                able[number] = stream.progress
        return self._schedule.pick(able, time.monotonic())

    def _decode(self, batch: Batch) -> None:
        rows = {number: row for number in batch.streams if (row := self._begun(number)) is not None}
        if not rows:
            return
        chunks = np.stack([self._next_codes(number, batch.frames) for number in rows])
        try:
            samples = self._decoder.decode(list(rows.values()), chunks)
        except Exception as error:
            _log.exception("Code2Wav failed on streams %s", list(rows))
            self._fail(rows, EngineFailed(f"Code2Wav failed: {error}"))
            return
        self._batches += 1
        self._batch_rows += len(rows)
        now = time.monotonic()
        for number, codes, heard in zip(rows, chunks, samples, strict=True):
            self._streams[number].progress.decoded(batch.frames, now)
            self._audio.send(number, AudioChunk(heard, codes).to_bytes(), batch.frames)
            self._frames.release(number, batch.frames)

    def _begun(self, number: int) -> int | None:
        """The stream's row, given to it now if it has none; None if it cannot begin, now or at all."""
        stream = self._streams[number]
        if stream.row is None and self._decoder.free_rows:
            try:
                stream.row = self._decoder.begin(stream.announcement.context)
            except Exception as error:
                _log.exception("Code2Wav could not begin stream %s", number)
                self._fail([number], EngineFailed(f"Code2Wav failed: {error}"))
        return stream.row

    def _next_codes(self, number: int, frames: int) -> NDArray[np.int16]:
        stream = self._streams[number]
        waiting = np.concatenate(stream.codes) if len(stream.codes) > 1 else stream.codes[0]
        stream.codes = [waiting[frames:]] if len(waiting) > frames else []
        return waiting[:frames]

    def _fail(self, numbers: Iterable[int], error: EngineFailed) -> None:
        for number in numbers:
            self._frames.cancel(number)
            self._forget(number)
            self._audio.fail(number, error.to_bytes())

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number)
        if stream.row is not None:
            self._decoder.end(stream.row)

    def _wait(self, until: float) -> None:
        timeout = None if isinf(until) else max(0.0, until - time.monotonic())
        self._wakeup.wait_for(self._news, timeout)

    def _news(self) -> bool:
        gone = not (self._frames.alive and self._audio.alive)
        return gone or self._frames.pending() or self._audio.pending()


def _is_cancelled(record: Record) -> bool:
    """Whether an END is that of an utterance that was given up. A probe's has no payload."""
    if not record.payload:
        return False
    return Completion.from_bytes(record.payload).finish_reason is FinishReason.CANCELLED
