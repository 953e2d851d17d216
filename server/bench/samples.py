"""The samples of an answer, as far as the figures need them."""

from __future__ import annotations

import struct

import numpy as np

_MOST = 65_536


def samples_in(head: bytes) -> tuple[int, int | None] | None:
    """The first sample's byte, and the rate where ``head`` tells one: bare samples begin at once, at a rate unknown.

    None: more bytes are needed. Raises ValueError for WAV that is not one channel of 16 bits.
    """
    if not head.startswith(b"RIFF"):
        return None if b"RIFF".startswith(head) else (0, None)
    at, rate = 12, None
    while len(head) >= at + 8:
        kind, size = struct.unpack_from("<4sI", head, at)
        if kind == b"data":
            return at + 8, rate
        if kind == b"fmt " and len(head) >= at + 24:
            rate = _rate(head, at + 8)
        at += 8 + size + size % 2
    if at > _MOST:
        raise ValueError("a WAV file without samples")
    return None


def _rate(head: bytes, at: int) -> int:
    _, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", head, at)
    if (channels, bits) != (1, 16):
        raise ValueError(f"WAV with {channels} channels of {bits} bits; one of 16 is understood")
    return int(rate)


class Samples:
    """16-bit mono samples in pieces of any length: at what rate, and which is the first that can be heard.

    They are looked at only until then, so that listening costs next to nothing. rate: of bare samples, in Hz.
    audible: how far a sample is from silence, of 1.
    """

    def __init__(self, rate: int, audible: float) -> None:
        self.rate = rate
        self.onset: int | None = None
        self._audible = audible * 32_768
        self._begun = False
        self._held = b""
        self._searched = 0

    def take(self, piece: bytes) -> int:
        """The next bytes of the body; how many bytes of samples are in them. Raises ValueError for unknown WAV."""
        if not self._begun:
            piece = self._begin(piece)
        if self.onset is None and piece:
            self._search(piece)
        return len(piece)

    def _begin(self, piece: bytes) -> bytes:
        self._held += piece
        found = samples_in(self._held)
        if found is None:
            return b""
        at, rate = found
        first, self._held = self._held[at:], b""
        self._begun, self.rate = True, rate or self.rate
        return first

    def _search(self, piece: bytes) -> None:
        data = self._held + piece
        whole = len(data) // 2
        samples = np.frombuffer(data, "<i2", count=whole)
        loud = (samples > self._audible) | (samples < -self._audible)
        if loud.any():
            self.onset = self._searched + int(loud.argmax())
        self._searched += whole
        self._held = data[2 * whole :]
