"""Wake-ups: one condition variable for any number of links, and a doorbell that notifies another process."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from engine.transfer.memory import CACHE_LINE, WORD, Fence

_POLL_PAUSE_S: Final = 20e-6
"""Pause between two checks of a polling waiter. Linux adds 50 us, the timer slack of a thread."""


class WakeupSource(Protocol):
    """A source that can notify a ``Wakeup`` from outside this process."""

    def request_notification(self) -> None:
        """Request a notification of the next change."""


class Wakeup:
    """A ``threading.Condition`` without lost wake-ups. Thread-safe.

    ``lock``, the lock of ``condition``, guards all state of the attached endpoints, so a predicate may read any of
    them.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self._sources: list[WakeupSource] = []
        self._fence = Fence()

    def attach(self, source: WakeupSource) -> None:
        """Add ``source`` to the sources that can wake waiters."""
        with self.condition:
            self._sources.append(source)

    def detach(self, source: WakeupSource) -> None:
        """Remove ``source``; the inverse of ``attach``."""
        with self.condition:
            self._sources.remove(source)

    def listen(self, doorbell: Doorbell, on_ring: Callable[[], None], on_hang_up: Callable[[], None]) -> None:
        """Call ``on_ring`` at every ring of ``doorbell``, and ``on_hang_up`` when the peer is gone, in a new thread."""
        doorbell.listen(on_ring, on_hang_up)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None, *, poll: float = 0.0) -> bool:
        """Sleep until ``predicate()`` holds or ``timeout`` seconds have passed; return whether it holds.

        The predicate is called under the lock. It may read attached endpoints, and state whose changes are followed by
        ``notify``. Endpoints attached to another ``Wakeup`` cannot wake this waiter.

        poll: seconds for which the predicate is checked about every 70 us before the thread sleeps, for a change that
        is due within milliseconds. On an idle GPU host, waking a thread takes some 60 us, and a ring wakes the
        listener's thread before this one.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        polls_until = time.monotonic() + poll if deadline is None else min(deadline, time.monotonic() + poll)
        while poll and time.monotonic() < polls_until:
            with self.lock:
                if predicate():
                    return True
            time.sleep(_POLL_PAUSE_S)
        with self.condition:
            while not predicate():
                for source in self._sources:
                    source.request_notification()
                self._fence()
                # A change made before the request was visible does not ring: check once more.
                if predicate():
                    return True
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return False
                self.condition.wait(remaining)
            return True

    def notify(self) -> None:
        """Make every waiter check its predicate again, after a change in this process."""
        with self.condition:
            self.condition.notify_all()


_send = ctypes.PyDLL(None).send
"""The system call, made with the interpreter lock held: ``socket.send`` releases it, and a thread that rings several
peers would wait for it after each ring, for up to ``sys.getswitchinterval``, while another thread computes."""
_send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_send.restype = ctypes.c_ssize_t
_RECORDS: Final = 0
_ROOM: Final = CACHE_LINE // WORD


class Doorbell:
    """One side's doorbell. Calls must be serialized, except those of ``listen``, ``clear_rings`` and ``close``.

    Each side stores one word and loads the other's: the waiter stores its request, then loads the ring's position; the
    notifier stores the position, then loads the request. A full barrier (``Fence``) between store and load on both
    sides guarantees that at least one sees the other's store, so either the waiter does not sleep or the notifier
    rings. Acquire and release alone would not: both loads could be satisfied before both stores.
    """

    def __init__(self, own: memoryview, peer: memoryview, connection: socket.socket) -> None:
        """own, peer: the signal words of each side. A side sets its own words, and the other side clears them."""
        self._own = own
        self._peer = peer
        self._connection = connection
        self._fence = Fence()
        self._listener: threading.Thread | None = None

    def request_notification(self) -> None:
        """Request a ring at the next record. The caller must issue a memory barrier and then check once more."""
        self._own[_RECORDS] = 1

    def request_room(self) -> None:
        """Request a ring when there is room. Issues the memory barrier; the caller must then check once more."""
        self._own[_ROOM] = 1
        self._fence()

    def notify_records(self) -> None:
        """Ring if the other side has requested a notification: records were written."""
        self._ring_if_requested(_RECORDS)

    def notify_room(self) -> None:
        """Ring if the other side has requested room: records were read."""
        self._ring_if_requested(_ROOM)

    def listen(self, on_ring: Callable[[], None], on_hang_up: Callable[[], None]) -> None:
        """Start a thread that calls ``on_ring`` at every ring, and ``on_hang_up`` once when the peer is gone."""
        self._listener = threading.Thread(
            target=self._listen, args=(on_ring, on_hang_up), name="link-listener", daemon=True
        )
        self._listener.start()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable at a ring, and when the peer is gone."""
        return self._connection.fileno()

    def clear_rings(self) -> bool:
        """Discard all rings that have arrived, without waiting. Return False when the peer is gone."""
        try:
            return bool(self._connection.recv(4096, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    def hang_up(self) -> None:
        """Shut the connection down, so that each side sees the other as gone."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, wait for the listener thread to end, and close the socket."""
        self.hang_up()
        if self._listener is not None:
            self._listener.join()
        self._connection.close()

    def _ring_if_requested(self, signal: int) -> None:
        self._fence()
        if self._peer[signal]:
            self._peer[signal] = 0
            self._fence()  # clear before the ring: a peer that has read the ring may request again
            # A full socket already holds an unread byte, which is enough; a broken one has ended the listener.
            _send(self._connection.fileno(), b"\0", 1, socket.MSG_DONTWAIT)

    def _listen(self, on_ring: Callable[[], None], on_hang_up: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while self._connection.recv(4096):
                    on_ring()
        finally:
            on_hang_up()  # on every exit, or waiters could wait forever
