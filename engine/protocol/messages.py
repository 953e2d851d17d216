"""Payloads of records on the request link and the frames link. Imports no torch.

The OPEN payload says what a stream is for: a request of the client, or frames from the talker to Code2Wav.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import CODEBOOKS, Voice

READY = 0
"""The stream on which a process reports that it is loaded, or why loading failed."""


class RequestKind(IntEnum):
    """The first byte of a request: its kind. The body of SPEECH is ``SpeechRequest.to_bytes``."""

    SPEECH = 1
    ENCODE = 2
    PROBE = 3
    SPEAKER = 4


@dataclass(frozen=True, slots=True, eq=False)
class EncodeRequest:
    """A reference recording to encode: mono float32 samples at 24 kHz.

    codes: whether to also encode the codes for in-context cloning.
    """

    samples: NDArray[np.float32]
    codes: bool

    def to_bytes(self) -> bytes:
        """Serialize the request."""
        return bytes([self.codes]) + self.samples.astype("<f4").tobytes()

    @staticmethod
    def from_bytes(payload: bytes) -> EncodeRequest:
        """The inverse of ``to_bytes``."""
        return EncodeRequest(np.frombuffer(payload, "<f4", offset=1), bool(payload[0]))


def pack_request(kind: RequestKind, body: bytes = b"") -> bytes:
    """Return the OPEN payload of a request."""
    return bytes([kind]) + body


def unpack_request(payload: bytes) -> tuple[RequestKind, bytes]:
    """Return the kind and the body of a request from its OPEN payload. The inverse of ``pack_request``."""
    return RequestKind(payload[0]), payload[1:]


def pack_text_delta(piece: str, *, last: bool) -> bytes:
    """Return the DATA payload that appends text to a live utterance."""
    return bytes([last]) + piece.encode()


def unpack_text_delta(payload: bytes) -> tuple[str, bool]:
    """Return the piece of text, and whether it is the last one. The inverse of ``pack_text_delta``."""
    return payload[1:].decode(), bool(payload[0])


def pack_voice(voice: Voice) -> bytes:
    """Return the END payload that answers a request for a voice."""
    return json.dumps(voice.to_fields()).encode()


def unpack_voice(payload: bytes) -> Voice:
    """The inverse of ``pack_voice``."""
    return Voice.from_fields(json.loads(payload))


@dataclass(frozen=True, slots=True, eq=False)
class StreamHeader:
    """What Code2Wav must know about a stream before its first frame.

    realtime: whether a client plays the audio while the engine produces it.
    context: codes, int16 [R, 16], of frames to decode before the first one. Their samples are discarded.
    probe: the talker's statistics, for a stream without frames that only checks whether the pipeline responds.
    """

    realtime: bool
    context: NDArray[np.int16] | None = None
    probe: dict[str, int] | None = None

    def to_bytes(self) -> bytes:
        """Serialize the header: a line of JSON, then the codes of the context."""
        head = json.dumps({"realtime": self.realtime, "probe": self.probe}).encode()
        body = b"" if self.context is None else self.context.astype("<i2").tobytes()
        return head + b"\n" + body

    @staticmethod
    def from_bytes(payload: bytes) -> StreamHeader:
        """The inverse of ``to_bytes``."""
        head, _, body = payload.partition(b"\n")
        context = np.frombuffer(body, "<i2").reshape(-1, CODEBOOKS) if body else None
        return StreamHeader(context=context, **json.loads(head))
