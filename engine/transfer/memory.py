"""Anonymous shared memory of a link, and the memory barrier that ordered access to it needs."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from typing import Final


class Fence:
    """A full barrier: what is stored before a call is visible before anything after the call is read.

    Giving up a lock is a release and taking one an acquire, each a real atomic operation of the processor
    (a semaphore in CPython up to 3.12, a compare-and-swap after). A release followed by an acquire keeps
    stores before it from sinking below and loads after it from rising above: on x86 either alone would do,
    on ARM it takes both, in this order. Hence twice through the lock, which also lets any thread call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Lets nothing pass."""
        with self._lock:
            pass
        with self._lock:
            pass


WORD: Final = 8
CACHE_LINE: Final = 64

_SIGNALS: Final = 2 * CACHE_LINE
_POSITIONS: Final = 2 * CACHE_LINE


def segment_size(capacity: int) -> int:
    """Bytes of a segment: each side's signal words, then a ring of ``capacity`` bytes in each direction."""
    return 2 * _SIGNALS + 2 * (_POSITIONS + capacity)


def allocate(size: int) -> int:
    """A file descriptor of ``size`` zero bytes of anonymous memory, closed on exec.

    A name in /dev/shm would be left behind when everybody who knows it is killed; the kernel frees this
    memory with its last descriptor and mapping.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("sonant-link", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


class Segment:
    """A link's memory in this process: its words and rings, as views that ``close`` takes back."""

    def __init__(self, descriptor: int, capacity: int) -> None:
        """Maps the memory behind ``descriptor``, which the caller may close afterwards."""
        self._capacity = capacity
        self._map = mmap.mmap(descriptor, segment_size(capacity))
        self._views: list[memoryview] = []

    def signals(self, side: int) -> memoryview:
        """The 8-byte words through which ``side`` asks to be woken; see ``Doorbell``."""
        return self._words(side * _SIGNALS, _SIGNALS)

    def positions(self, side: int) -> memoryview:
        """The 8-byte words that tell how far the ring written by ``side`` has been written and read."""
        return self._words(self._ring(side), _POSITIONS)

    def data(self, side: int) -> memoryview:
        """The bytes of the ring written by ``side``."""
        return self._view(self._ring(side) + _POSITIONS, self._capacity)

    def close(self) -> None:
        """Unmaps the memory; every view taken from it is dead afterwards."""
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
        with memoryview(self._map) as whole:
            view = whole[offset : offset + length]
        self._views.append(view)
        return view
