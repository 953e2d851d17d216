"""The messages between the decoder's supervisor and its worker processes.

A request is REQUEST followed by the recording's bytes. A reply is REPLY followed by its payload. A worker sends one
READY reply when it has started, then one reply per request, in order.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from engine.protocol.request import SAMPLE_RATE
from server.references.validation import RecordingLimits

REQUEST = struct.Struct("<ddQQ")
"""reference_min_seconds, reference_max_seconds, reference_max_bytes, size in bytes of the recording that follows."""
REPLY = struct.Struct("<BQ")
"""Status, size in bytes of the payload that follows."""
MAX_TEXT_BYTES = 64 * 1024
"""Maximum size of a payload other than samples."""


class Status(IntEnum):
    """The result of decoding a recording, or of the worker's start. The payload is text unless noted otherwise."""

    READY = 0
    DECODED = 1
    """The payload is float32 samples at 24 kHz."""
    REFUSED = 2
    """The recording is invalid. The payload is JSON with the message and the code of the ApiError."""
    CRASHED = 3
    """The decoding process was killed by a signal, or failed unexpectedly."""
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
    """The header before a recording on the worker's standard input. size: bytes of the recording."""

    limits: RecordingLimits
    size: int

    def to_bytes(self) -> bytes:
        """Return the header in the layout of REQUEST."""
        limits = self.limits
        seconds = limits.reference_min_seconds, limits.reference_max_seconds
        return REQUEST.pack(*seconds, limits.reference_max_bytes, self.size)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse a header of REQUEST.size bytes."""
        min_seconds, max_seconds, max_bytes, size = REQUEST.unpack(data)
        return cls(WireLimits(min_seconds, max_seconds, max_bytes), size)


def max_payload_bytes(limits: RecordingLimits) -> int:
    """Return the maximum size in bytes of a reply's payload: the samples of the longest recording, or a text."""
    return max(MAX_TEXT_BYTES, 4 * math.ceil(limits.reference_max_seconds * SAMPLE_RATE + 1))
