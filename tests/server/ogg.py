"""Ogg pages with correct checksums (RFC 3533)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_REVERSED_BITS = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_HEAD = struct.Struct("<4sBBqIIIB")
_MAX_SEGMENTS = 255


@dataclass(frozen=True)
class Page:
    """One Ogg page. kind: flags; 1 continued, 2 first, 4 last."""

    kind: int
    granule: int
    serial: int
    number: int
    segments: bytes
    body: bytes

    def to_bytes(self) -> bytes:
        """Serialize the page with its checksum."""
        fields = self.kind, self.granule, self.serial, self.number
        head = _HEAD.pack(b"OggS", 0, *fields, 0, len(self.segments)) + self.segments
        sum_at = _HEAD.size - 5
        checksum = crc32(head + self.body).to_bytes(4, "little")
        return head[:sum_at] + checksum + head[sum_at + 4 :] + self.body

    def packets(self) -> list[bytes]:
        """The packets of the page; the first and the last may be incomplete."""
        packets, start, size = [], 0, 0
        for number, segment in enumerate(self.segments):
            size += segment
            if segment < 255 or number == len(self.segments) - 1:
                packets.append(self.body[start : start + size])
                start, size = start + size, 0
        return packets

    def with_packets(self, packets: Sequence[bytes]) -> Page:
        """A copy of this page with other packets; a last packet that continues on the next page still does."""
        segments, body = lace_packets(packets)
        if self.segments.endswith(b"\xff"):
            segments = segments.rstrip(bytes(range(255)))
            body = body[: sum(segments)]
        return replace(self, segments=segments, body=body)


def crc32(data: bytes) -> int:
    """Ogg's CRC-32: zlib's polynomial, bits reflected, no inversion."""
    reflected = zlib.crc32(data.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)


def pages(data: bytes) -> Iterator[Page]:
    """The pages of a valid file."""
    at = 0
    while data[at : at + 4] == b"OggS":
        _, _, kind, granule, serial, number, _, count = _HEAD.unpack_from(data, at)
        segments = data[at + _HEAD.size : at + _HEAD.size + count]
        start = at + _HEAD.size + count
        at = start + sum(segments)
        yield Page(kind, granule, serial, number, segments, data[start:at])


def lace_packets(packets: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Segment table and body of a page with complete ``packets``; whatever exceeds one page is cut off."""
    table = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    table = table[:_MAX_SEGMENTS]
    return table, b"".join(packets)[: sum(table)]


def stream(packets_by_page: Sequence[Sequence[bytes]], granules: Sequence[int]) -> bytes:
    """A file with one logical stream and the given pages."""
    last = len(packets_by_page) - 1
    encoded_pages = []
    for number, (packets, granule) in enumerate(zip(packets_by_page, granules, strict=True)):
        kind = (2 if number == 0 else 0) | (4 if number == last else 0)
        encoded_pages.append(Page(kind, granule, 1, number, *lace_packets(packets)).to_bytes())
    return b"".join(encoded_pages)
