"""Parses the audio of a response: its sample rate, and its first audible sample."""

from __future__ import annotations

import struct

import numpy as np

_MAX_HEADER_BYTES = 65_536


def samples_in(head: bytes) -> tuple[int, int | None] | None:
    """Return the byte offset of the first sample, and the sample rate in Hz if ``head`` contains one (WAV).

    Raw samples start at offset 0, with an unknown rate. Returns None when more bytes are needed.
    Raises ValueError for WAV that is not 16-bit mono.
    """
    if not head.startswith(b"RIFF"):
        return None if b"RIFF".startswith(head) else (0, None)
    offset, rate = 12, None
    while len(head) >= offset + 8:
        chunk, size = struct.unpack_from("<4sI", head, offset)
        if chunk == b"data":
            return offset + 8, rate
        if chunk == b"fmt " and len(head) >= offset + 24:
            rate = _rate(head, offset + 8)
        offset += 8 + size + size % 2
    if offset > _MAX_HEADER_BYTES:
        raise ValueError(f"the WAV file has a header of more than {_MAX_HEADER_BYTES} bytes without samples")
    return None


def _rate(head: bytes, offset: int) -> int:
    _, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", head, offset)
    if (channels, bits) != (1, 16):
        raise ValueError(f"WAV must have 1 channel of 16 bits, got {channels} channels of {bits} bits")
    return int(rate)


class Samples:
    """Receives 16-bit mono samples in pieces of any length, and finds their rate and the first audible sample.

    Samples after the first audible one are not examined, so the cost is negligible.

    Args:
        rate: sample rate in Hz of raw samples.
        audible: magnitude above which a sample is audible; full scale is 1.

    Attributes:
        rate: sample rate in Hz.
        onset: index of the first audible sample, or None.
    """

    def __init__(self, rate: int, audible: float) -> None:
        self.rate = rate
        self.onset: int | None = None
        self._audible = audible * 32_768
        self._begun = False
        self._pending = b""
        self._searched = 0

    def add(self, piece: bytes) -> int:
        """Add the next bytes of the body. Return how many of them are samples.

        Raises ValueError for an unsupported WAV file.
        """
        if not self._begun:
            piece = self._begin(piece)
        if self.onset is None and piece:
            self._search(piece)
        return len(piece)

    def _begin(self, piece: bytes) -> bytes:
        self._pending += piece
        found = samples_in(self._pending)
        if found is None:
            return b""
        offset, rate = found
        first, self._pending = self._pending[offset:], b""
        self._begun, self.rate = True, rate or self.rate
        return first

    def _search(self, piece: bytes) -> None:
        data = self._pending + piece
        count = len(data) // 2
        samples = np.frombuffer(data, "<i2", count=count)
        loud = (samples > self._audible) | (samples < -self._audible)
        if loud.any():
            self.onset = self._searched + int(loud.argmax())
        self._searched += count
        self._pending = data[2 * count :]
