"""A memory barrier, which Python lacks."""

from __future__ import annotations

import threading


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
