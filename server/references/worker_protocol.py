"""The messages between the decoder's supervisor and its worker processes.

A request is REQUEST followed by the recording's bytes; a reply is REPLY followed by its payload. A worker sends one
READY reply when it has started, then one reply for each request, in order.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from engine.protocol.request import SAMPLE_RATE
from server.references.bounds import RecordingLimits

REQUEST = struct.Struct("<ddQQ")
"""reference_min_seconds, reference_max_seconds, reference_max_bytes, bytes of the recording that follows."""
REPLY = struct.Struct("<BQ")
"""Status, bytes of the payload that follows."""
MAX_TEXT_BYTES = 64 * 1024
"""Upper bound of a payload that is not samples."""


class Status(IntEnum):
    """What became of a recording, or of the worker's start. The payload is text unless the status says otherwise."""

    READY = 0
    DECODED = 1
    """The payload is float32 samples at 24 kHz."""
    REFUSED = 2
    """The recording is not acceptable; the payload is JSON, the message and the code of the ApiError."""
    CRASHED = 3
    """The decoding process was killed by a signal, or failed in a way that no recording should cause."""
    OUT_OF_MEMORY = 4
    OUT_OF_TIME = 5
    NOT_STARTED = 6
    """The decoding process could not be forked."""


@dataclass(slots=True)
class WireLimits:
    """The limits of one request, as the worker reads them."""

    reference_min_seconds: float
    reference_max_seconds: float
    reference_max_bytes: int


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What precedes a recording on the worker's standard input. size: bytes of the recording."""

    limits: RecordingLimits
    size: int

    def to_bytes(self) -> bytes:
        """The header as REQUEST lays it out."""
        limits = self.limits
        seconds = limits.reference_min_seconds, limits.reference_max_seconds
        return REQUEST.pack(*seconds, limits.reference_max_bytes, self.size)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The header in REQUEST.size bytes."""
        min_seconds, max_seconds, max_bytes, size = REQUEST.unpack(data)
        return cls(WireLimits(min_seconds, max_seconds, max_bytes), size)


def max_payload_bytes(limits: RecordingLimits) -> int:
    """Upper bound of a reply's payload: the samples of the longest recording, or a text."""
    return max(MAX_TEXT_BYTES, 4 * math.ceil(limits.reference_max_seconds * SAMPLE_RATE + 1))
