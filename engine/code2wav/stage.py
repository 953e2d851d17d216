"""The loop of stage 2: receives codec frames and sends chunks of samples, batched and by deadline."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from math import inf, isinf

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.base import Decoder, PendingBatch
from engine.code2wav.early_decoding import EarlyDecoding
from engine.code2wav.requests import Stream, StreamTable
from engine.code2wav.schedule import Batch, Progress, Schedule
from engine.config import Code2WavConfig
from engine.errors import EngineFailed
from engine.protocol.request import AudioChunk
from engine.protocol.samples import NAN_SAMPLE
from engine.transfer import Endpoint, Kind, MultiEndpoint, Wakeup

_MAX_FAILED_BATCHES = 3
"""Consecutive failures after which the stage ends, so that the engine restarts: the device is probably broken."""
_MAX_IN_FLIGHT = 2
"""Maximum batches in flight: the GPU starts the second one without waiting for the host. Each occupies one of the
decoder's staging buffers until it is sent."""
_POLL_S = 0.01
"""How long after its announcement to poll for the first frame of a stream."""
_FEW_STREAMS = 8
"""With more streams, first frames are not polled for and not decoded early: the GPU and the interpreter are busy."""
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _BatchInFlight:
    """A batch that is in flight, or decoded and not yet sent. codes: int16 [streams, frames, 16]."""

    streams: dict[int, Stream]
    codes: NDArray[np.int16]
    pending: PendingBatch


class Code2WavStage:
    """Runs in one thread until either link is closed.

    frames: link from the talker, carries codec frames. audio: link to the engine client, carries audio chunks. Both
    are attached to ``wakeup``. early: decodes first frames before their codes arrive.
    """

    def __init__(
        self,
        decoder: Decoder,
        config: Code2WavConfig,
        *,
        frames: Endpoint,
        audio: MultiEndpoint,
        wakeup: Wakeup,
        early: EarlyDecoding | None = None,
    ) -> None:
        self._decoder, self._early = decoder, early
        self._rows = decoder.free_rows
        self._schedule = Schedule.from_config(config, padded=decoder.padded)
        self._frames, self._audio, self._wakeup = frames, audio, wakeup
        self._table = StreamTable(frames, audio)
        self._streams = self._table.streams
        self._in_flight: deque[_BatchInFlight] = deque()
        self._failures = 0
        self._batches = 0
        self._batch_rows = 0
        self._chunks = 0

    def run(self) -> None:
        """Decode until the talker or the engine client closes its link.

        On a GPU decoding is asynchronous: up to ``_MAX_IN_FLIGHT`` batches are decoded while the stage goes on. They
        are sent in order. Raises the decoder's error after ``_MAX_FAILED_BATCHES`` consecutive failures.
        """
        while self._frames.alive and self._audio.alive:
            self._table.receive()
            self._send_first_frame()
            self._finish_ended()
            waiting, now, may_launch = self._waiting_streams(), time.monotonic(), self._may_launch()
            batch = self._schedule.next_batch(waiting, now) if may_launch else None
            if batch is not None:
                self._launch(batch)
            elif self._in_flight:
                self._finish_oldest()
            elif not (may_launch and self._launch_first_frame()):
                self._wait(until=self._schedule.next_due(waiting, now) if may_launch else inf)

    def _may_launch(self) -> bool:
        """Return whether a staging buffer is free, and no first frame waits on the GPU for its talker step."""
        return len(self._in_flight) < _MAX_IN_FLIGHT and not (self._early is not None and self._early.in_flight)

    def _launch_first_frame(self) -> bool:
        """Start to decode a first frame before its codes arrive, and return whether one was started."""
        few = len(self._streams) <= _FEW_STREAMS
        return self._early is not None and few and self._early.launch(self._streams)

    def _send_first_frame(self) -> None:
        """Send the first frame that was decoded early, once its codes have arrived."""
        if self._early is None or (stream_id := self._early.arrived()) is None:
            return
        try:
            batch = self._early.take()
        except Exception as error:
            self._fail_batch([stream_id], error)
            return
        if batch is not None:
            codes = self._table.next_codes([stream_id], 1)
            self._send(_BatchInFlight({stream_id: self._streams[stream_id]}, codes, batch))

    def _finish_ended(self) -> None:
        """Forward the END or FAIL of streams that have nothing left to decode."""
        for stream_id, terminal in self._table.finished():
            probe = self._remove(stream_id).header.probe
            if terminal.kind is Kind.FAIL:
                self._audio.fail(stream_id, terminal.payload)
            else:
                self._audio.end(stream_id, terminal.payload if probe is None else self._probe_answer(probe))

    def _probe_answer(self, probe: dict[str, int]) -> bytes:
        return json.dumps(probe | self._stats()).encode()

    def _stats(self) -> dict[str, int]:
        used, size = self._audio.fill
        return {
            "code2wav_streams": len(self._streams),
            "code2wav_rows": self._rows_used(),
            "code2wav_batches": self._batches,
            "code2wav_batch_rows": self._batch_rows,
            "code2wav_chunks": self._chunks,
            "audio_ring_used": used,
            "audio_ring_size": size,
            "context_hits": self._decoder.prefix_cache.hits,
            "context_misses": self._decoder.prefix_cache.misses,
        }

    def _rows_used(self) -> int:
        return self._rows - self._decoder.free_rows

    def _waiting_streams(self) -> dict[int, Progress]:
        """Return the progress, with its credit updated, of the streams that can be in the next batch."""
        has_free_row = bool(self._decoder.free_rows)
        excluded = {stream_id for batch in self._in_flight for stream_id in batch.streams}
        waiting = {
            stream_id: stream.progress
            for stream_id, stream in self._streams.items()
            if stream.progress.pending and (has_free_row or stream.row is not None) and stream_id not in excluded
        }
        for progress, credit in zip(waiting.values(), self._audio.credits(waiting), strict=True):
            progress.credit = credit
        return waiting

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
        in_flight = _BatchInFlight({stream_id: self._streams[stream_id] for stream_id in rows}, codes, pending)
        if pending.done and not self._in_flight:
            self._send(in_flight)
        else:
            self._in_flight.append(in_flight)

    def _finish_oldest(self) -> None:
        """Wait for the oldest batch in flight, and send its chunks."""
        batch = self._in_flight.popleft()
        try:
            batch.pending.collect()
        except Exception as error:
            present = [each for each, stream in batch.streams.items() if self._streams.get(each) is stream]
            self._fail_batch(present, error)
            return
        self._send(batch)

    def _send(self, batch: _BatchInFlight) -> None:
        """Send the chunks of a decoded batch. Skip cancelled streams, and fail streams whose samples contain NaN."""
        self._failures = 0
        self._batches += 1
        self._batch_rows += len(batch.streams)
        now, frames = time.monotonic(), batch.codes.shape[1]
        samples = batch.pending.collect()
        payloads = zip(batch.streams.items(), AudioChunk.all_to_bytes(samples, batch.codes), strict=True)
        chunks = {
            stream_id: chunk
            for (stream_id, stream), chunk in payloads
            if self._streams.get(stream_id) is stream and not stream.aborted
        }
        for stream_id, smallest in zip(batch.streams, samples.min(1), strict=True):
            if smallest == NAN_SAMPLE and chunks.pop(stream_id, None) is not None:
                _log.error("Code2Wav produced NaN samples for stream %d", stream_id)
                self._fail([stream_id], EngineFailed("Code2Wav produced NaN samples"))
        for stream_id in chunks:
            self._streams[stream_id].progress.record_decoded(frames, now)
        self._chunks += len(chunks)
        self._audio.send_all((stream_id, chunk, frames) for stream_id, chunk in chunks.items())
        self._frames.release_each(chunks, frames)

    def _begin_all(self, batch: Batch) -> dict[int, int]:
        """Return the row of each stream of the batch, and begin those without one. Omits streams that cannot begin.

        On a CPU decoding a context takes long, so one stream with a context begins at a time: probes must be answered.
        """
        rows, began_with_context = {}, False
        for stream_id in batch.streams:
            stream = self._streams[stream_id]
            has_context = stream.row is None and stream.header.context is not None
            if has_context and began_with_context and not self._decoder.padded:
                continue
            began_with_context = began_with_context or has_context
            if (row := self._begin(stream_id)) is not None:
                rows[stream_id] = row
        return rows

    def _begin(self, stream_id: int) -> int | None:
        """Return the stream's row, and begin the stream if needed. Return None when no row is free or it fails."""
        stream = self._streams[stream_id]
        if stream.row is None and self._decoder.free_rows:
            try:
                stream.row = self._decoder.begin(stream.header.context)
            except Exception as error:
                _log.exception("Code2Wav failed to begin stream %d", stream_id)
                self._fail([stream_id], EngineFailed(f"Code2Wav failed: {error}"))
                if stream.header.context is None:  # a context is client data and can be the cause itself
                    self._count_failure(error)
        return stream.row

    def _fail_batch(self, stream_ids: Collection[int], error: Exception) -> None:
        _log.error("Code2Wav failed to decode the streams %s", list(stream_ids), exc_info=error)
        self._fail(stream_ids, EngineFailed(f"Code2Wav failed: {error}"))
        self._count_failure(error)

    def _count_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures >= _MAX_FAILED_BATCHES:
            _log.error("Code2Wav stops after %d consecutive failures", self._failures)
            raise error

    def _fail(self, stream_ids: Collection[int], error: EngineFailed) -> None:
        """Fail streams. Report every failure before freeing any row: freeing a row can raise on a failed GPU."""
        for stream_id in stream_ids:
            self._frames.cancel(stream_id)
            self._audio.fail(stream_id, error.to_bytes())
        for stream_id in stream_ids:
            self._remove(stream_id)

    def _remove(self, stream_id: int) -> Stream:
        stream = self._table.remove(stream_id)
        if self._early is not None:
            self._early.drop(stream)
        if stream.row is not None:
            self._decoder.end(stream.row)
        return stream

    def _wait(self, until: float) -> None:
        timeout = None if isinf(until) else max(0.0, until - time.monotonic())
        self._wakeup.wait_for(self._has_input, timeout, poll=self._poll_seconds())

    def _poll_seconds(self) -> float:
        """Return how long to poll for the first frame of a stream; 0.0 if none is expected within milliseconds.

        With many streams there is no polling, because their steps need the interpreter.
        """
        if not self._decoder.padded or len(self._streams) > _FEW_STREAMS:
            return 0.0
        streams = (each for each in self._streams.values() if not (each.progress.decoded or each.progress.pending))
        opened = max((each.opened for each in streams if not each.aborted), default=0.0)
        return max(0.0, opened + _POLL_S - time.monotonic())

    def _has_input(self) -> bool:
        disconnected = not (self._frames.alive and self._audio.alive)
        return disconnected or self._frames.pending() or self._audio.pending()
