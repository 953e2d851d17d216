"""Anonymous shared memory of a link, and a memory barrier for ordered access to it."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from typing import Final


class Fence:
    """A full memory barrier: stores before a call are visible before any load after the call. Thread-safe.

    A call takes and releases a lock twice. Taking it is a load with acquire semantics: later accesses stay after it.
    Releasing it is a store with release semantics: earlier accesses stay before it. So earlier accesses stay before the
    first release, and later ones after the second acquire. Arm performs a release before a later acquire in program
    order (STLR or STLXR before LDAR, LDAXR or CASA, "barrier-ordered-before" in the architecture's memory model), which
    closes the gap between the two. Taking and releasing once would not be enough there: a later load may be satisfied
    before the release. On x86 each atomic operation is a full barrier.

    Every operation on an uncontended lock is a real atomic operation of the processor. From CPython 3.13.1 on, a lock
    is a PyMutex: both operations are sequentially consistent compare-and-swaps (Arm: CASAL, without LSE LDAXR and
    STLXR). Earlier versions use a semaphore of the C library: in glibc, compare-and-swaps with acquire (CASA or LDAXR)
    to take it and with release (CASL or STLXR) to release it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Issue the barrier."""
        with self._lock:
            pass
        with self._lock:
            pass


WORD: Final = 8
CACHE_LINE: Final = 64

_SIGNALS: Final = 2 * CACHE_LINE
_POSITIONS: Final = 3 * CACHE_LINE


def segment_size(capacity: int) -> int:
    """Return the bytes of a segment: signal words per side, then a ring of ``capacity`` bytes per direction."""
    return 2 * _SIGNALS + 2 * (_POSITIONS + capacity)


def allocate(size: int) -> int:
    """Return a file descriptor, close-on-exec, of ``size`` bytes of zeroed anonymous memory.

    A named file in /dev/shm would leak when all its users are killed. The kernel frees anonymous memory with its last
    descriptor and mapping.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("sonant-link", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


class Segment:
    """A link's memory mapped into this process. Its words and rings are memoryviews, which ``close`` releases."""

    def __init__(self, descriptor: int, capacity: int) -> None:
        """Map the memory of ``descriptor``, which the caller may close afterwards."""
        self._capacity = capacity
        self._map = mmap.mmap(descriptor, segment_size(capacity))
        self._views: list[memoryview] = []

    def signals(self, side: int) -> memoryview:
        """Return the 8-byte words with which ``side`` asks to be woken; see ``Doorbell``."""
        return self._words(side * _SIGNALS, _SIGNALS)

    def positions(self, side: int) -> memoryview:
        """Return the 8-byte words of the ring that ``side`` writes: its positions, and its announcement."""
        return self._words(self._ring(side), _POSITIONS)

    def data(self, side: int) -> memoryview:
        """Return the data bytes of the ring that ``side`` writes."""
        return self._view(self._ring(side) + _POSITIONS, self._capacity)

    def close(self) -> None:
        """Unmap the memory. No view of it may be used afterwards."""
        for view in self._views:
            view.release()
        self._map.close()

    def _ring(self, side: int) -> int:
        return 2 * _SIGNALS + side * (_POSITIONS + self._capacity)

    def _words(self, offset: int, length: int) -> memoryview:
        words = self._view(offset, length).cast("Q")
        self._views.append(words)
        return words

    def _view(self, offset: int, length: int) -> memoryview:
        with memoryview(self._map) as mapped:
            view = mapped[offset : offset + length]
        self._views.append(view)
        return view
