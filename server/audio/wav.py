"""The RIFF header of 16-bit mono PCM."""

from __future__ import annotations

import struct

_UNKNOWN = 0xFFFFFFFF
_SAMPLE_BYTES = 2
_HEADER_AFTER_SIZE = 36


def wav_header(rate: int, samples: int | None) -> bytes:
    """44 bytes. ``samples`` None: the length is not known yet, and both sizes say 0xFFFFFFFF."""
    data = _UNKNOWN if samples is None else samples * _SAMPLE_BYTES
    riff = _UNKNOWN if samples is None else data + _HEADER_AFTER_SIZE
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        riff,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        rate,
        rate * _SAMPLE_BYTES,
        _SAMPLE_BYTES,
        8 * _SAMPLE_BYTES,
        b"data",
        data,
    )
