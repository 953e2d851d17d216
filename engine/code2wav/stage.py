"""The loop of stage 2: receives codec frames and sends chunks of samples, batched and by deadline."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from math import isinf

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.base import Decoder, PendingBatch
from engine.code2wav.requests import Stream, StreamTable
from engine.code2wav.schedule import Batch, Schedule
from engine.config import Code2WavConfig
from engine.errors import EngineFailed
from engine.protocol.request import AudioChunk
from engine.protocol.samples import NAN_SAMPLE
from engine.transfer import Endpoint, Kind, Wakeup

_FAILED_BATCHES = 3
"""Consecutive failures after which the stage ends, so that the engine restarts: the device is probably broken."""
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Launched:
    """A batch that is in flight, or decoded and not yet sent. codes: int16 [streams, frames, 16]."""

    streams: dict[int, Stream]
    codes: NDArray[np.int16]
    pending: PendingBatch


class Code2WavStage:
    """Runs in one thread until either link is closed.

    frames: link from the talker, carries codec frames. audio: link to the engine client, carries audio chunks. Both
    are attached to ``wakeup``.
    """

    def __init__(
        self,
        decoder: Decoder,
        config: Code2WavConfig,
        *,
        frames: Endpoint,
        audio: Endpoint,
        wakeup: Wakeup,
    ) -> None:
        self._decoder = decoder
        self._rows = decoder.free_rows
        self._schedule = Schedule.of(config, padded=decoder.padded)
        self._frames, self._audio, self._wakeup = frames, audio, wakeup
        self._table = StreamTable(frames, audio)
        self._streams = self._table.streams
        self._under_way: _Launched | None = None
        self._failures = 0
        self._batches = 0
        self._batch_rows = 0

    def run(self) -> None:
        """Decode until the talker or the engine client closes its link.

        On a GPU decoding is asynchronous: a batch is sent while the next one is decoded. Raises the decoder's error
        after ``_FAILED_BATCHES`` consecutive failures.
        """
        while self._frames.alive and self._audio.alive:
            done = self._await_pending()
            self._table.take()
            self._finish_ended()
            decision = self._decide({} if done is None else done.streams)
            if isinstance(decision, Batch):
                self._launch(decision)
            if done is not None:
                self._send(done)
            elif not isinstance(decision, Batch):
                self._wait(until=decision)

    def _finish_ended(self) -> None:
        """Forward the END or FAIL of streams that have nothing left to decode."""
        for number, terminal in self._table.finished():
            probe = self._forget(number).header.probe
            if terminal.kind is Kind.FAIL:
                self._audio.fail(number, terminal.payload)
            else:
                self._audio.end(number, terminal.payload if probe is None else self._answer(probe))

    def _answer(self, probe: dict[str, int]) -> bytes:
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

    def _decide(self, unsent: Collection[int]) -> Batch | float:
        beginners = bool(self._decoder.free_rows)
        able = {
            number: stream.progress
            for number, stream in self._streams.items()
            if stream.progress.pending and (beginners or stream.row is not None) and number not in unsent
        }
        for progress, credit in zip(able.values(), self._audio.credits(able), strict=True):
            progress.room = credit
        return self._schedule.pick(able, time.monotonic())

    def _launch(self, batch: Batch) -> None:
        rows = self._begin_all(batch)
        if not rows:
            return
        codes = self._table.next_codes(rows, batch.frames)
        try:
            pending = self._decoder.launch(list(rows.values()), codes)
        except Exception as error:
            self._fail_batch(rows, error)
            return
        launched = _Launched({number: self._streams[number] for number in rows}, codes, pending)
        if pending.done:
            self._send(launched)
        else:
            self._under_way = launched

    def _await_pending(self) -> _Launched | None:
        """Wait for the batch in flight and return it. Return None when there is none or when it fails."""
        launched, self._under_way = self._under_way, None
        if launched is not None:
            try:
                launched.pending.collect()
            except Exception as error:
                self._fail_batch(launched.streams, error)
                return None
        return launched

    def _send(self, launched: _Launched) -> None:
        """Send the chunks of a decoded batch. Skip cancelled streams, and fail streams whose samples contain NaN."""
        self._failures = 0
        self._batches += 1
        self._batch_rows += len(launched.streams)
        now, frames = time.monotonic(), launched.codes.shape[1]
        samples = launched.pending.collect()
        chunks = zip(launched.streams.items(), AudioChunk.all_to_bytes(samples, launched.codes), strict=True)
        heard = {
            number: chunk
            for (number, stream), chunk in chunks
            if self._streams.get(number) is stream and not stream.unwanted
        }
        for number, least in zip(launched.streams, samples.min(1), strict=True):
            if least == NAN_SAMPLE and heard.pop(number, None) is not None:
                _log.error("Code2Wav made samples of stream %s that are no numbers", number)
                self._fail([number], EngineFailed("Code2Wav made samples that are no numbers"))
        for number in heard:
            self._streams[number].progress.decoded(frames, now)
        self._audio.send_all((number, chunk, frames) for number, chunk in heard.items())
        self._frames.release_all((number, frames) for number in heard)

    def _begin_all(self, batch: Batch) -> dict[int, int]:
        """The rows of the batch's streams, given to those that have none. Streams that cannot begin are left out.

        On a CPU decoding a context takes long, so one stream with a context begins at a time: probes must be answered.
        """
        rows, began_with_context = {}, False
        for number in batch.streams:
            stream = self._streams[number]
            has_context = stream.row is None and stream.header.context is not None
            if has_context and began_with_context and not self._decoder.padded:
                continue
            began_with_context = began_with_context or has_context
            if (row := self._begun(number)) is not None:
                rows[number] = row
        return rows

    def _begun(self, number: int) -> int | None:
        """Return the stream's row, and begin the stream if needed. Return None when no row is free or it fails."""
        stream = self._streams[number]
        if stream.row is None and self._decoder.free_rows:
            try:
                stream.row = self._decoder.begin(stream.header.context)
            except Exception as error:
                _log.exception("Code2Wav could not begin stream %s", number)
                self._fail([number], EngineFailed(f"Code2Wav failed: {error}"))
                if stream.header.context is None:  # a context is client data and can be the cause itself
                    self._count_failure(error)
        return stream.row

    def _fail_batch(self, numbers: Collection[int], error: Exception) -> None:
        _log.error("Code2Wav failed on streams %s", list(numbers), exc_info=error)
        self._fail(numbers, EngineFailed(f"Code2Wav failed: {error}"))
        self._count_failure(error)

    def _count_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures >= _FAILED_BATCHES:
            _log.error("Code2Wav ends after %d failures in a row", self._failures)
            raise error

    def _fail(self, numbers: Collection[int], error: EngineFailed) -> None:
        """Fail streams. Report every failure before freeing any row: freeing a row can raise on a failed GPU."""
        for number in numbers:
            self._frames.cancel(number)
            self._audio.fail(number, error.to_bytes())
        for number in numbers:
            self._forget(number)

    def _forget(self, number: int) -> Stream:
        stream = self._table.forget(number)
        if stream.row is not None:
            self._decoder.end(stream.row)
        return stream

    def _wait(self, until: float) -> None:
        timeout = None if isinf(until) else max(0.0, until - time.monotonic())
        self._wakeup.wait_for(self._news, timeout)

    def _news(self) -> bool:
        gone = not (self._frames.alive and self._audio.alive)
        return gone or self._frames.pending() or self._audio.pending()
