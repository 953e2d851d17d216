"""A ring of records in shared memory, for one writer and one reader.

Layout: two words, each on its own cache line - bytes ever written (``tail``, the writer's) and bytes ever
read (``head``, the reader's) - and the data. A record is a header and a payload, rounded up to the size of
a header, so that headers never wrap; payloads may.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from engine.transfer.memory import CACHE_LINE, WORD, Fence
from engine.transfer.records import LinkCorrupt

# stream u64, sequence u32, kind u16, flags u16, units u32, length u32, time f64
_HEADER: Final = struct.Struct("QIHHIId")
_TAIL: Final = 0
_HEAD: Final = CACHE_LINE // WORD

ALIGNMENT: Final = _HEADER.size


class Entry(NamedTuple):
    """A record as the ring stores it. ``kind`` and ``flags`` mean nothing to the ring."""

    stream: int
    sequence: int
    kind: int
    flags: int
    units: int
    time: float
    payload: bytes


def largest_payload(room: int) -> int:
    """Bytes of the largest payload whose record takes no more than ``room`` bytes."""
    return room // ALIGNMENT * ALIGNMENT - _HEADER.size


def record_size(length: int) -> int:
    """Bytes that a record with a payload of ``length`` bytes takes in a ring."""
    return (_HEADER.size + length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class RingWriter:
    """The writing end. Calls must not overlap."""

    def __init__(self, positions: memoryview, data: memoryview) -> None:
        """positions: 8-byte words; data: bytes, a multiple of ``ALIGNMENT`` of them."""
        self._positions = positions
        self._data = data
        self._capacity = len(data)
        self._tail: int = positions[_TAIL]
        self._fence = Fence()

    @property
    def capacity(self) -> int:
        """Bytes that it can hold."""
        return self._capacity

    @property
    def used(self) -> int:
        """Bytes that wait for the reader."""
        waiting: int = self._tail - self._positions[_HEAD]
        return waiting

    def write(self, entry: Entry) -> bool:
        """Puts ``entry`` and publishes it, or returns False when there is no room for it now. Raises as ``put``."""
        if not self.put(entry):
            return False
        self.publish()
        return True

    def put(self, entry: Entry) -> bool:
        """Writes ``entry`` behind what was put before, or returns False when there is no room for it now.

        Raises LinkCorrupt when the reader claims to have read what was never written.
        """
        size = record_size(len(entry.payload))
        used = self._tail - self._positions[_HEAD]
        if not 0 <= used <= self._capacity:
            raise LinkCorrupt(f"the reader is {used} bytes behind in a ring of {self._capacity}")
        if used + size > self._capacity:
            return False
        self._store(entry)
        self._tail += size
        return True

    def publish(self) -> None:
        """Lets the reader see everything put."""
        self._fence()  # the records are whole before the tail announces them
        self._positions[_TAIL] = self._tail  # one aligned 8-byte store: never seen half done

    def _store(self, entry: Entry) -> None:
        stream, sequence, kind, flags, units, time, payload = entry
        length = len(payload)
        start = self._tail % self._capacity
        _HEADER.pack_into(self._data, start, stream, sequence, kind, flags, units, length, time)
        start += _HEADER.size
        before_end = min(length, self._capacity - start)
        self._data[start : start + before_end] = payload[:before_end]
        if before_end < length:
            self._data[: length - before_end] = payload[before_end:]


class RingReader:
    """The reading end. Calls must not overlap."""

    def __init__(self, positions: memoryview, data: memoryview) -> None:
        """positions: 8-byte words; data: bytes, a multiple of ``ALIGNMENT`` of them."""
        self._positions = positions
        self._data = data
        self._capacity = len(data)
        self._head: int = positions[_HEAD]
        self._fence = Fence()

    @property
    def ready(self) -> bool:
        """Whether something can be read."""
        return self._head != self._positions[_TAIL]

    def read(self) -> list[Entry]:
        """Everything published by now, oldest first, copied out; its room is given back.

        Raises LinkCorrupt when what stands there cannot have been written by a ``RingWriter``.
        """
        tail: int = self._positions[_TAIL]
        if tail == self._head:
            return []
        if not 0 < tail - self._head <= self._capacity:
            raise LinkCorrupt(f"the writer is {tail - self._head} bytes ahead in a ring of {self._capacity}")
        self._fence()  # the records are read after the tail that announced them
        entries = []
        while self._head != tail:
            entries.append(self._take(tail - self._head))
        self._fence()  # the records are copied before their room is given back
        self._positions[_HEAD] = self._head
        return entries

    def _take(self, available: int) -> Entry:
        start = self._head % self._capacity
        if available < _HEADER.size or start % ALIGNMENT:
            raise LinkCorrupt(f"{available} bytes at {start} hold no record")
        stream, sequence, kind, flags, units, length, time = _HEADER.unpack_from(self._data, start)
        size = record_size(length)
        if size > available:
            raise LinkCorrupt(f"a record of {size} bytes in the {available} that were written")
        self._head += size
        return Entry(stream, sequence, kind, flags, units, time, self._copy(start + _HEADER.size, length))

    def _copy(self, start: int, length: int) -> bytes:
        end = start + length
        if end <= self._capacity:
            return bytes(self._data[start:end])
        return bytes(self._data[start:]) + bytes(self._data[: end - self._capacity])
