"""The payloads of OPEN records: what a stream is for. Free of torch.

On the request link the client asks; on the frames link the talker announces.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import CODEBOOKS, SpeechRequest, Voice

READY = 0
"""The stream on which a process says that it is loaded, or why it cannot be."""


class Ask(IntEnum):
    """The first byte of a request: what the client wants."""

    SPEAK = 1
    ENCODE = 2
    PROBE = 3
    SPEAKER = 4


@dataclass(frozen=True, slots=True, eq=False)
class EncodeRequest:
    """A reference recording to encode: mono float32 samples at 24 kHz; ``codes`` for in-context cloning."""

    samples: NDArray[np.float32]
    codes: bool

    def to_bytes(self) -> bytes:
        """The request as it travels to the engine process."""
        return bytes([self.codes]) + self.samples.astype("<f4").tobytes()

    @staticmethod
    def from_bytes(payload: bytes) -> EncodeRequest:
        """The inverse of ``to_bytes``."""
        return EncodeRequest(np.frombuffer(payload, "<f4", offset=1), bool(payload[0]))


def ask(kind: Ask, body: bytes = b"") -> bytes:
    """The OPEN payload of a request."""
    return bytes([kind]) + body


def asked(payload: bytes) -> tuple[Ask, bytes]:
    """The inverse of ``ask``."""
    return Ask(payload[0]), payload[1:]


def speak(request: SpeechRequest) -> bytes:
    """The OPEN payload of an utterance."""
    return ask(Ask.SPEAK, request.to_bytes())


def text_delta(piece: str, *, last: bool) -> bytes:
    """The DATA payload that continues a live utterance's text."""
    return bytes([last]) + piece.encode()


def parse_text_delta(payload: bytes) -> tuple[str, bool]:
    """The inverse of ``text_delta``: the piece, and whether it is the last."""
    return payload[1:].decode(), bool(payload[0])


def encoded_voice(voice: Voice) -> bytes:
    """The END payload that answers an EncodeRequest."""
    return json.dumps(voice.to_fields()).encode()


def decoded_voice(payload: bytes) -> Voice:
    """The inverse of ``encoded_voice``."""
    return Voice.from_fields(json.loads(payload))


@dataclass(frozen=True, slots=True, eq=False)
class Announcement:
    """What Code2Wav must know of a stream before its first frame.

    realtime: whether somebody listens while it is made.
    context: int16 [R, 16], frames heard before the first one, whose samples nobody wants.
    probe: for a stream without frames that only shows that the pipeline moves: figures of the stages so far.
    """

    realtime: bool
    context: NDArray[np.int16] | None = None
    probe: dict[str, int] | None = None

    def to_bytes(self) -> bytes:
        """The announcement as it travels: a line of JSON, then the context's codes."""
        head = json.dumps({"realtime": self.realtime, "probe": self.probe}).encode()
        body = b"" if self.context is None else self.context.astype("<i2").tobytes()
        return head + b"\n" + body

    @staticmethod
    def from_bytes(payload: bytes) -> Announcement:
        """The inverse of ``to_bytes``."""
        head, _, body = payload.partition(b"\n")
        context = np.frombuffer(body, "<i2").reshape(-1, CODEBOOKS) if body else None
        return Announcement(context=context, **json.loads(head))
