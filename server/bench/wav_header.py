"""Where the samples of a WAV file begin, for servers that send one instead of bare samples."""

from __future__ import annotations

import struct

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
