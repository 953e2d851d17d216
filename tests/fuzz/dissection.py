"""Takes recordings apart and puts them together with correct sizes and checksums, so that mutations reach the codecs.

Without this most mutated files end at the checksum of an Ogg page or at the size of an MP4 box.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tests.server import ogg

Join = Callable[[Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Dissected:
    """The payloads of a file. join: makes a file from the same number of payloads of any length."""

    parts: tuple[bytes, ...]
    join: Join


@lru_cache(maxsize=256)
def dissect(data: bytes) -> Dissected:
    """Return the payloads of a valid file. A file in a format without sizes and checksums is one payload."""
    if data.startswith(b"OggS"):
        return _ogg(data)
    if data.startswith(b"fLaC"):
        return _flac(data)
    if data.startswith(b"\xff\xf1"):
        return _adts(data)
    chunks = _CHUNKED.get(data[:4]) or (_Mp4() if data[4:8] == b"ftyp" else None)
    if chunks is None:
        return Dissected((data,), b"".join)
    parts: list[bytes] = []
    nodes = chunks.read(data, parts)
    return Dissected(tuple(parts), lambda payloads: b"".join(node.to_bytes(payloads, chunks) for node in nodes))


@dataclass(frozen=True)
class _Node:
    """A chunk: its name, and either its subchunks or the index of its payload."""

    name: bytes
    content: list[_Node] | int

    def to_bytes(self, parts: Sequence[bytes], chunks: _Chunks) -> bytes:
        if isinstance(self.content, int):
            return chunks.write(self.name, parts[self.content])
        return chunks.write(self.name, b"".join(node.to_bytes(parts, chunks) for node in self.content))


class _Chunks(ABC):
    """A container format of chunks with names and sizes. head: bytes of the file before the first chunk."""

    head = 0
    containers: frozenset[bytes] = frozenset()

    def read(self, data: bytes, parts: list[bytes]) -> list[_Node]:
        nodes = []
        if self.head:
            nodes.append(_Node(b"", len(parts)))
            parts.append(data[: self.head])
        return nodes + self.read_all(data[self.head :], parts)

    def read_all(self, data: bytes, parts: list[bytes]) -> list[_Node]:
        nodes = []
        for name, body in self.split(data):
            if name in self.containers:
                nodes.append(_Node(name, self.read_all(body, parts)))
            else:
                nodes.append(_Node(name, len(parts)))
                parts.append(body)
        return nodes

    @abstractmethod
    def split(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the name and the payload of each chunk."""

    @abstractmethod
    def write(self, name: bytes, body: bytes) -> bytes:
        """Return a chunk, or only the payload if the name is empty."""


class _Mp4(_Chunks):
    containers = frozenset(b"moov trak mdia minf stbl mvex moof traf edts dinf udta".split())

    def split(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        offset = 0
        while offset + 8 <= len(data):
            size = int.from_bytes(data[offset : offset + 4]) or len(data) - offset
            yield data[offset + 4 : offset + 8], data[offset + 8 : offset + size]
            offset += size

    def write(self, name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", 8 + len(body)) + name + body


class _Matroska(_Chunks):
    containers = frozenset(
        bytes.fromhex(name)
        for name in "18538067 1549a966 1654ae6b ae e1 1f43b675 a0 1c53bb6b bb b7 114d9b74 4dbb".split()
    )

    def split(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        offset = 0
        while offset < len(data):
            name = data[offset : offset + 9 - data[offset].bit_length()]
            offset += len(name)
            width = 9 - data[offset].bit_length()
            size = int.from_bytes(data[offset : offset + width]) - (1 << 7 * width)
            offset += width
            size = len(data) - offset if size == (1 << 7 * width) - 1 else size  # unknown: to the end
            yield name, data[offset : offset + size]
            offset += size

    def write(self, name: bytes, body: bytes) -> bytes:
        return name + (len(body) | 1 << 56).to_bytes(8) + body


class _Riff(_Chunks):
    """RIFF, and IFF, which is big-endian."""

    head = 12

    def __init__(self, order: str) -> None:
        self._size = struct.Struct(f"{order}I")

    def split(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        offset = 0
        while offset + 8 <= len(data):
            size = min(self._size.unpack_from(data, offset + 4)[0], len(data) - offset - 8)
            yield data[offset : offset + 4], data[offset + 8 : offset + 8 + size]
            offset += 8 + size + size % 2

    def write(self, name: bytes, body: bytes) -> bytes:
        return name + self._size.pack(len(body)) + body + bytes(len(body) % 2) if name else body


class _Caf(_Chunks):
    head = 8

    def split(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        offset = 0
        while offset + 12 <= len(data):
            size = min(int.from_bytes(data[offset + 4 : offset + 12]), len(data) - offset - 12)
            yield data[offset : offset + 4], data[offset + 12 : offset + 12 + size]
            offset += 12 + size

    def write(self, name: bytes, body: bytes) -> bytes:
        return name + struct.pack(">Q", len(body)) + body if name else body


_CHUNKED: dict[bytes, _Chunks] = {
    b"\x1aE\xdf\xa3": _Matroska(),
    b"RIFF": _Riff("<"),
    b"RF64": _Riff("<"),
    b"FORM": _Riff(">"),
    b"caff": _Caf(),
}


def _ogg(data: bytes) -> Dissected:
    """Return a payload for each packet, or part of a packet, of each page."""
    pages = list(ogg.pages(data))
    pieces = [page.packets() for page in pages]

    def join(parts: Sequence[bytes]) -> bytes:
        rest = iter(parts)
        return b"".join(
            page.with_packets([next(rest) for _ in of_page]).to_bytes()
            for page, of_page in zip(pages, pieces, strict=True)
        )

    return Dissected(tuple(piece for of_page in pieces for piece in of_page), join)


def _adts(data: bytes) -> Dissected:
    """Return a payload for each frame. Its size is in bits 30 to 42 of its header."""
    frames, offset = [], 0
    while offset + 7 <= len(data):
        size = int.from_bytes(data[offset + 3 : offset + 6]) >> 5 & 0x1FFF
        frames.append(data[offset : offset + size])
        offset += max(7, size)

    def sized(frame: bytes) -> bytes:
        if not 7 <= len(frame) <= 0x1FFF:
            return frame
        fields = int.from_bytes(frame[3:6]) & ~(0x1FFF << 5) | len(frame) << 5
        return b"\xff" + frame[1:3] + fields.to_bytes(3) + frame[6:]

    return Dissected(tuple(frames), lambda parts: b"".join(map(sized, parts)))


def _flac(data: bytes) -> Dissected:
    """Return a payload for each metadata block, and for each frame without its checksums."""
    offset, last = 4, False
    kinds, parts = [], []
    while not last:
        last, size = data[offset] >= 0x80, int.from_bytes(data[offset + 1 : offset + 4])
        kinds.append(data[offset])
        parts.append(data[offset + 4 : offset + 4 + size])
        offset += 4 + size
    starts = [place for place in range(offset, len(data)) if _is_flac_frame(data, place)]
    parts += [data[start : end - 2] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]

    def join(parts: Sequence[bytes]) -> bytes:
        blocks = [bytes([kind]) + len(part).to_bytes(4)[1:] + part for kind, part in zip(kinds, parts, strict=False)]
        return b"fLaC" + b"".join(blocks) + b"".join(map(_flac_frame, parts[len(kinds) :]))

    return Dissected(tuple(parts), join)


def _is_flac_frame(data: bytes, offset: int) -> bool:
    size = _flac_header(data[offset : offset + 16])
    return bool(size) and _crc(data[offset : offset + size], 8, 0x07) == data[offset + size]


def _flac_frame(frame: bytes) -> bytes:
    """Return the frame with its checksums: one byte after the header, two at the end."""
    size = _flac_header(frame[:16])
    if size and size < len(frame):
        frame = frame[:size] + bytes([_crc(frame[:size], 8, 0x07)]) + frame[size + 1 :]
    return frame + _crc(frame, 16, 0x8005).to_bytes(2)


def _flac_header(head: bytes) -> int:
    """Return the size of a frame's header without its checksum; 0 if it is not a header (RFC 9639, section 9.1)."""
    if len(head) < 6 or head[0] != 0xFF or head[1] & 0xFE != 0xF8:
        return 0
    ones = 8 - (head[4] ^ 0xFF).bit_length()
    block, rate = head[2] >> 4, head[2] & 15
    return 4 + max(1, ones) + {6: 1, 7: 2}.get(block, 0) + {12: 1, 13: 2, 14: 2}.get(rate, 0)


@lru_cache(maxsize=2)
def _crc_table(bits: int, polynomial: int) -> tuple[int, ...]:
    table = []
    for value in range(256):
        value <<= bits - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> (bits - 1) else 0)
            value &= (1 << bits) - 1
        table.append(value)
    return tuple(table)


def _crc(data: bytes, bits: int, polynomial: int) -> int:
    table, mask, value = _crc_table(bits, polynomial), (1 << bits) - 1, 0
    for byte in data:
        value = (value << 8 & mask) ^ table[value >> (bits - 8) ^ byte]
    return value
