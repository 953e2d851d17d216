"""Decodes the first frame of a new stream on a GPU before the host has its codes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.code2wav.gpu import GraphedDecoder, PendingFirstFrame
from engine.code2wav.requests import Stream
from engine.device.first_frame import FirstFrameSlot
from engine.protocol.request import CODEBOOKS

_FRAME_BYTES = 2 * CODEBOOKS
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _InFlight:
    stream_id: int
    stream: Stream
    batch: PendingFirstFrame


class EarlyDecoding:
    """Decodes at most one first frame at a time, of a stream whose codes have not arrived on the link.

    slot: holds the frames that the talker hands over.
    """

    def __init__(self, decoder: GraphedDecoder, slot: FirstFrameSlot) -> None:
        self._decoder, self._slot = decoder, slot
        self._frame: _InFlight | None = None
        self._failed = False

    @property
    def in_flight(self) -> bool:
        """Whether a frame is in flight. Batches launched after it wait on the GPU until its talker step has ended."""
        return self._frame is not None

    def launch(self, streams: Mapping[int, Stream]) -> bool:
        """Start to decode the frame in the slot, and return whether one was started. No frame may be in flight.

        The frame must be of a stream that waits for it, plays in real time and has no context to decode before.
        """
        frame = self._slot.frame
        if self._failed or frame is None or not self._decoder.free_rows:
            return False
        stream = streams.get(frame.stream)
        if stream is None:
            return False  # not announced yet
        self._slot.frame = None
        if not _waits(stream):
            return False
        row = self._decoder.begin(None)
        try:
            batch = self._decoder.launch_first(row, frame)
        except Exception:
            _log.exception("early decoding of first frames is disabled: its launch failed for stream %d", frame.stream)
            self._failed = True
            self._decoder.end(row)
            return False
        stream.row = row
        self._frame = _InFlight(frame.stream, stream, batch)
        return True

    def arrived(self) -> int | None:
        """Return the stream of the frame in flight if its codes have arrived, so that ``take`` may be called."""
        return None if self._frame is None or not self._frame.stream.progress.pending else self._frame.stream_id

    def take(self) -> PendingFirstFrame | None:
        """Wait for the frame that has ``arrived``, and return its batch. Raises the decoder's error.

        None if the decoded codes are not those that have arrived, because they were overwritten on the device. The
        stream then has no row and begins again.
        """
        frame, self._frame = self._frame, None
        assert frame is not None
        frame.batch.collect()
        codes = np.frombuffer(frame.stream.codes[:_FRAME_BYTES], "<i2")
        if np.array_equal(frame.batch.codes, codes):
            return frame.batch
        _log.info("the first frame of stream %d is decoded again: its codes were overwritten", frame.stream_id)
        row, frame.stream.row = frame.stream.row, None
        assert row is not None
        self._decoder.end(row)
        return None

    def drop(self, stream: Stream) -> None:
        """Wait for the frame in flight if it is of ``stream``, which ends without it. Logs an error of the decoder."""
        if self._frame is not None and self._frame.stream is stream:
            frame, self._frame = self._frame, None
            try:
                frame.batch.collect()
            except Exception:
                _log.exception("decoding the first frame of stream %d failed after its end", frame.stream_id)


def _waits(stream: Stream) -> bool:
    """Return whether a real-time stream without a context waits for its first frame."""
    header, progress = stream.header, stream.progress
    begins = stream.row is None and not progress.pending and stream.terminal is None and not stream.aborted
    return begins and header.realtime and header.context is None and header.probe is None
