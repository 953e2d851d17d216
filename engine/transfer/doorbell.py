"""How one side of a link wakes the other: no polling, and no system call unless the other side sleeps.

A side that is about to sleep sets a word in shared memory and looks once more. A side that changed
something looks at that word, and only if it is set clears it and sends one byte. With a barrier between
the two steps on each side, either the sleeper sees the change or the other side sees the word.

The socket is also the notice of death: the kernel closes a dead process's end.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

from engine.transfer.fence import Fence
from engine.transfer.memory import CACHE_LINE, WORD

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
