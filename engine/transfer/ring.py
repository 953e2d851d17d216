"""A ring of records in shared memory, for one writer and one reader.

Layout: three words, each on its own cache line, then the data. ``tail`` counts all bytes ever written, and only the
writer changes it. ``head`` counts all bytes ever read, and only the reader changes it. ``announcement`` is a time that
the writer sets, and orders nothing. A record is a header and a payload, padded to a multiple of the header size.
Therefore headers never wrap around; payloads may.

Memory order, for processors that reorder loads and stores (Arm): a position is an aligned 8-byte word, which memoryview
copies with one load or store of the processor, so a read never sees half of an update. These loads and stores are
plain, and so are those of the records. Four rules order them:

- Writer, ``publish``: the stores of the records, a ``Fence``, the store of ``tail``.
- Reader, ``read``: the load of ``tail``, a ``Fence``, the loads of the records. With the first rule, a reader that sees
  the new tail sees complete records.
- Reader, ``read``: the loads of the records, a ``Fence``, the store of ``head``.
- Writer, ``put``: the load of ``head``, a branch on its value, the stores of the records. The branch is a control
  dependency, which needs no barrier: a processor does not perform a store before it has resolved the branches before
  it, and compilers do not invent stores. With the third rule, the writer overwrites only what has been copied. Linux's
  ring buffer of perf events relies on the same dependency.

The interpreter adds no reordering: every access is a call into compiled code, in program order. ``Doorbell`` explains
the order of positions and wake-ups.
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
_ANNOUNCEMENT: Final = 2 * CACHE_LINE // WORD

ALIGNMENT: Final = _HEADER.size


class Entry(NamedTuple):
    """A record as the ring stores it. The ring does not interpret ``kind`` and ``flags``."""

    stream: int
    sequence: int
    kind: int
    flags: int
    units: int
    time: float
    payload: bytes


def largest_payload(room: int) -> int:
    """Return the bytes of the largest payload whose record fits into ``room`` bytes."""
    return room // ALIGNMENT * ALIGNMENT - _HEADER.size


def record_size(length: int) -> int:
    """Return the bytes that a record with a payload of ``length`` bytes takes in the ring."""
    return (_HEADER.size + length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class RingWriter:
    """The writer of a ring. Not thread-safe."""

    def __init__(self, positions: memoryview, data: memoryview) -> None:
        """positions: 8-byte words; data: bytes, whose length is a multiple of ``ALIGNMENT``."""
        self._positions = positions
        self._data = data
        self._capacity = len(data)
        self._tail: int = positions[_TAIL]
        self._fence = Fence()

    @property
    def capacity(self) -> int:
        """Size of the ring in bytes."""
        return self._capacity

    @property
    def used(self) -> int:
        """Bytes written and not yet read."""
        used: int = self._tail - self._positions[_HEAD]
        return used

    def put(self, entry: Entry) -> bool:
        """Write ``entry`` after the entries put before, or return False when there is no room for it now.

        Raises LinkCorrupt when the reader's position is invalid (it claims to have read more than was written).
        """
        size = record_size(len(entry.payload))
        used = self._tail - self._positions[_HEAD]
        if not 0 <= used <= self._capacity:
            raise LinkCorrupt(f"the reader must be in 0..{self._capacity} bytes behind, got {used}")
        if used + size > self._capacity:
            return False
        self._store(entry)
        self._tail += size
        return True

    def announce(self, nanoseconds: int) -> None:
        """Tell the reader the time at which a record was announced (``time.monotonic_ns``)."""
        self._positions[_ANNOUNCEMENT] = nanoseconds

    def publish(self) -> None:
        """Make all entries that were put visible to the reader."""
        self._fence()  # complete the records before the tail announces them
        self._positions[_TAIL] = self._tail  # an aligned 8-byte store is atomic

    def _store(self, entry: Entry) -> None:
        stream, sequence, kind, flags, units, time, payload = entry
        length = len(payload)
        start = self._tail % self._capacity
        _HEADER.pack_into(self._data, start, stream, sequence, kind, flags, units, length, time)
        start += _HEADER.size
        end = start + length
        if end <= self._capacity:
            self._data[start:end] = payload
        else:
            before_end = self._capacity - start
            self._data[start:] = payload[:before_end]
            self._data[: length - before_end] = payload[before_end:]


class RingReader:
    """The reader of a ring. Not thread-safe."""

    def __init__(self, positions: memoryview, data: memoryview) -> None:
        """positions: 8-byte words; data: bytes, whose length is a multiple of ``ALIGNMENT``."""
        self._positions = positions
        self._data = data
        self._capacity = len(data)
        self._head: int = positions[_HEAD]
        self._fence = Fence()

    @property
    def ready(self) -> bool:
        """Whether there are entries to read."""
        return self._head != self._positions[_TAIL]

    @property
    def announcement(self) -> int:
        """The time that the writer has told last; 0 at first."""
        time: int = self._positions[_ANNOUNCEMENT]
        return time

    def read(self) -> list[Entry]:
        """Return copies of all published entries, oldest first, and free their room in the ring.

        Raises LinkCorrupt when the content cannot have been written by a ``RingWriter``.
        """
        tail: int = self._positions[_TAIL]
        if tail == self._head:
            return []
        if not 0 < tail - self._head <= self._capacity:
            raise LinkCorrupt(f"the writer must be in 0..{self._capacity} bytes ahead, got {tail - self._head}")
        self._fence()  # read the records only after the tail
        entries = self._take(tail)
        self._fence()  # finish the copies before their room is freed
        self._positions[_HEAD] = self._head = tail
        return entries

    def _take(self, tail: int) -> list[Entry]:
        """Return copies of the entries up to ``tail``. Raises LinkCorrupt."""
        data, capacity, head = self._data, self._capacity, self._head
        entries = []
        while head != tail:
            available = tail - head
            start = head % capacity
            if available < _HEADER.size or start % ALIGNMENT:
                raise LinkCorrupt(f"the {available} bytes at offset {start} cannot contain a record")
            stream, sequence, kind, flags, units, length, time = _HEADER.unpack_from(data, start)
            size = record_size(length)
            if size > available:
                raise LinkCorrupt(f"a record can have at most the {available} bytes that were written, got {size}")
            start += _HEADER.size
            end = start + length
            payload = bytes(data[start:end]) if end <= capacity else bytes(data[start:]) + bytes(data[: end - capacity])
            entries.append(Entry(stream, sequence, kind, flags, units, time, payload))
            head += size
        return entries
