"""Wake-ups for an event loop: endpoints whose records are received in the loop, without threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from typing_extensions import override

from engine.transfer.memory import Fence
from engine.transfer.wakeup import Doorbell, Wakeup


class LoopWakeup(Wakeup):
    """A ``Wakeup`` that calls a function in an event loop when records or credit may have arrived.

    Attach endpoints, and call all methods, in the thread of the loop. ``stop`` must precede ``Endpoint.close``.

    Args:
        loop: the event loop, which must implement ``add_reader``.
        receive: receives from all attached endpoints. It must not wait.
        pending: returns whether ``receive`` has something to do.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, receive: Callable[[], None], pending: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._loop, self._receive, self._pending = loop, receive, pending
        self._readers: list[Doorbell] = []
        self._scheduled: asyncio.Handle | None = None
        self._barrier = Fence()

    @override
    def listen(self, doorbell: Doorbell, on_ring: Callable[[], None], on_hang_up: Callable[[], None]) -> None:
        self._readers.append(doorbell)
        self._loop.add_reader(doorbell.fileno(), self._on_readable, doorbell, on_ring, on_hang_up)
        self._schedule()

    def stop(self) -> None:
        """Receive nothing more. Idempotent."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        for doorbell in self._readers:
            self._loop.remove_reader(doorbell.fileno())
        self._readers.clear()

    def _on_readable(self, doorbell: Doorbell, on_ring: Callable[[], None], on_hang_up: Callable[[], None]) -> None:
        if doorbell.clear_rings():
            on_ring()
        else:
            self._loop.remove_reader(doorbell.fileno())
            self._readers.remove(doorbell)
            on_hang_up()
        self._schedule()

    def _schedule(self) -> None:
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = None
        self._receive()
        for doorbell in self._readers:
            doorbell.request_notification()
        self._barrier()
        if self._readers and self._pending():  # what arrived before the request was visible does not ring
            self._schedule()
