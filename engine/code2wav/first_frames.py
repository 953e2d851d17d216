"""Decodes the first frame of a new stream on a GPU before the host has its codes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.code2wav.base import PendingBatch
from engine.code2wav.requests import Stream
from engine.device.first_frame import DeviceFrame, FirstFrame
from engine.protocol.request import CODEBOOKS

_FRAME_BYTES = 2 * CODEBOOKS
_log = logging.getLogger(__name__)


class DecodedFirstFrame(PendingBatch, Protocol):
    """A batch in flight of one frame. codes: int64 [16], those that were decoded, valid after ``collect``."""

    codes: NDArray[np.int64]


class FirstFrameDecoder(Protocol):
    """``engine.code2wav.gpu.GraphedDecoder``."""

    @property
    def free_rows(self) -> int:
        """Number of streams that can still begin."""

    def begin(self, context: None) -> int:
        """Begin a stream and return its row."""

    def end(self, row: int) -> None:
        """End the stream of ``row`` and free the row."""

    def launch_first(self, row: int, frame: DeviceFrame) -> DecodedFirstFrame:
        """Start decoding the first frame of a stream as soon as its codes are on the device."""


@dataclass(frozen=True, slots=True)
class _Early:
    stream_id: int
    stream: Stream
    batch: DecodedFirstFrame


class FirstFrames:
    """At most one first frame in flight, of a stream whose codes have not arrived on the link.

    frame: from where the talker's frames are taken.
    """

    def __init__(self, decoder: FirstFrameDecoder, frame: FirstFrame) -> None:
        self._decoder, self._frame = decoder, frame
        self._early: _Early | None = None

    @property
    def in_flight(self) -> bool:
        """Whether a frame is in flight. Batches launched after it wait for its talker step on the GPU."""
        return self._early is not None

    def launch(self, streams: Mapping[int, Stream]) -> None:
        """Start to decode the latest first frame, if it is of a stream that waits for it and plays in real time."""
        frame = self._frame.take()
        if frame is None or self._early is not None or not self._decoder.free_rows:
            return
        stream = streams.get(frame.stream)
        if stream is None or not _waits(stream):
            return
        row = self._decoder.begin(None)
        try:
            batch = self._decoder.launch_first(row, frame)
        except Exception:
            _log.exception("decoding the first frame of stream %d early failed", frame.stream)
            self._decoder.end(row)
            return
        stream.row = row
        self._early = _Early(frame.stream, stream, batch)

    def arrived(self) -> int | None:
        """Return the stream of the frame in flight once its codes have arrived; the batch is then for ``take``."""
        return None if self._early is None or not self._early.stream.progress.pending else self._early.stream_id

    def take(self) -> DecodedFirstFrame | None:
        """Wait for the frame that has ``arrived``, and return its batch.

        None if other codes than those that have arrived were decoded, because the device's had been overwritten. The
        stream then has no row and begins again. Raises the decoder's error.
        """
        early, self._early = self._early, None
        assert early is not None
        early.batch.collect()
        codes = np.frombuffer(early.stream.codes[:_FRAME_BYTES], "<i2")
        if np.array_equal(early.batch.codes, codes):
            return early.batch
        _log.info("the first frame of stream %d is decoded again: its codes were overwritten", early.stream_id)
        row, early.stream.row = early.stream.row, None
        assert row is not None
        self._decoder.end(row)
        return None

    def drop(self, stream: Stream) -> None:
        """Wait for the frame in flight if it is of ``stream``, which ends without it."""
        if self._early is not None and self._early.stream is stream:
            early, self._early = self._early, None
            early.batch.collect()


def _waits(stream: Stream) -> bool:
    """Return whether a stream of a real-time client waits for its first frame, and has no context to decode before."""
    header, progress = stream.header, stream.progress
    begins = stream.row is None and not progress.pending and stream.terminal is None and not stream.aborted
    return begins and header.realtime and header.context is None and header.probe is None
