"""Waking up: one condition variable for any number of links, and the doorbell that notifies another process."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from engine.transfer.memory import CACHE_LINE, WORD, Fence


class Waker(Protocol):
    """Something that can notify a ``Wakeup`` from outside this process."""

    def ask_for_news(self) -> None:
        """Asks to be told of the next change."""


class Wakeup:
    """A ``threading.Condition`` whose waiters no change escapes.

    The lock of ``condition`` guards all state of the endpoints attached to it, so a predicate may look at
    any of them. Waiters and notifiers may be any threads.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._wakers: list[Waker] = []
        self._fence = Fence()

    def attach(self, waker: Waker) -> None:
        """Counts ``waker`` among those that waiters depend on."""
        with self.condition:
            self._wakers.append(waker)

    def detach(self, waker: Waker) -> None:
        """The inverse of ``attach``."""
        with self.condition:
            self._wakers.remove(waker)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleeps until ``predicate()``, which is called under the lock, or for ``timeout`` seconds.

        Returns whether the predicate holds. It may depend on attached endpoints and on state that is
        followed by ``notify``; endpoints attached elsewhere cannot wake this waiter.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.condition:
            while not predicate():
                for waker in self._wakers:
                    waker.ask_for_news()
                self._fence()
                # What changed before the request for news could be seen rings nobody: look once more.
                if predicate():
                    return True
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return False
                self.condition.wait(remaining)
            return True

    def notify(self) -> None:
        """Makes every waiter look again: something of this process has changed."""
        with self.condition:
            self.condition.notify_all()


_NEWS: Final = 0
_ROOM: Final = CACHE_LINE // WORD


class Doorbell:
    """One side's bell. Every method but ``listen`` and ``close`` must be serialised by the caller."""

    def __init__(self, mine: memoryview, theirs: memoryview, connection: socket.socket) -> None:
        """mine, theirs: each side's signal words, of which the other side reads and clears ours."""
        self._mine = mine
        self._theirs = theirs
        self._connection = connection
        self._fence = Fence()
        self._listener: threading.Thread | None = None

    def ask_for_news(self) -> None:
        """Asks for a ring at the next record. The caller puts a barrier before it looks once more."""
        self._mine[_NEWS] = 1

    def ask_for_room(self) -> None:
        """Asks for a ring when room has been made, barrier included: look once more after this."""
        self._mine[_ROOM] = 1
        self._fence()

    def published(self) -> None:
        """Tells the other side, if it sleeps, that a record was written."""
        self._ring_if_asked(_NEWS)

    def consumed(self) -> None:
        """Tells the other side, if it waits for it, that there is room."""
        self._ring_if_asked(_ROOM)

    def listen(self, on_ring: Callable[[], None], on_gone: Callable[[], None]) -> None:
        """Starts the thread that calls ``on_ring`` when rung, and ``on_gone`` once when the peer is gone."""
        self._listener = threading.Thread(
            target=self._listen, args=(on_ring, on_gone), name="link-listener", daemon=True
        )
        self._listener.start()

    def hang_up(self) -> None:
        """Makes both sides see the other as gone."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hangs up, waits for the listener's end and closes the socket."""
        self.hang_up()
        if self._listener is not None:
            self._listener.join()
        self._connection.close()

    def _ring_if_asked(self, signal: int) -> None:
        self._fence()
        if self._theirs[signal]:
            self._theirs[signal] = 0
            # A full socket holds a byte not yet read, which is enough; a broken one has told the listener.
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._connection.send(b"\0", socket.MSG_DONTWAIT)

    def _listen(self, on_ring: Callable[[], None], on_gone: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while self._connection.recv(4096):
                    on_ring()
        finally:
            on_gone()  # whatever ended this thread: nobody may go on waiting for it
