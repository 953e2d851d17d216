"""Graceful shutdown: accepted requests finish, new ones are refused, a second signal stops the server at once."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from server.http.descriptors import prepare_listeners
from server.http.supervisor import STOP_SIGNAL, Heartbeat
from server.http.websockets import WebSocketConnection
from server.live.sessions import Sessions
from server.synthesis.admission import Admission

_CLOSE_SECONDS = 1.0
"""Upper bound on how long shutdown waits for clients that do not answer the close frame."""


class Server(uvicorn.Server):
    """A uvicorn server that drains on a stop signal: it listens and responds until the last accepted request ends.

    Args:
        config: uvicorn's configuration.
        admission: refuses new requests while the server drains.
        sessions: the live sessions, which shutdown ends.
        patience: seconds after the stop signal at which requests in flight are cancelled.
        tell: called with progress messages for the operator.
        heartbeat: tells the supervisor that the event loop runs, from the time that connections are accepted until
            the loop ends.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        admission: Admission,
        sessions: Sessions,
        patience: float,
        tell: Callable[[str], None],
        heartbeat: Heartbeat,
    ) -> None:
        super().__init__(config)
        self._admission = admission
        self._sessions = sessions
        self._patience = patience
        self._tell = tell
        self._heartbeat = heartbeat
        self._beating: asyncio.Task[None] | None = None
        self._told: float | None = None
        self._announced = False
        self._forced = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle the supervisor's signal instead of SIGINT and SIGTERM, which the supervisor handles."""
        before = signal.signal(STOP_SIGNAL, self.handle_exit)
        try:
            yield
        finally:
            signal.signal(STOP_SIGNAL, before)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, accept connections, and start the heartbeat."""
        await super().startup(sockets)
        prepare_listeners(sockets or [])
        self._beating = asyncio.create_task(self._heartbeat.run())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on the first stop signal, stop at once on a second one.

        uvicorn would store the signal and raise it again after shutdown. A requested stop is not a failure, so it is
        not stored.
        """
        if self._told is not None or self.should_exit:
            self._force()
            return
        self._told = time.monotonic()
        self._admission.close()

    async def on_tick(self, counter: int) -> bool:
        """Check the drain and return whether to exit. uvicorn calls this ten times a second."""
        if self._told is not None:
            self._look_at_drain(self._told + self._patience)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections, wait for responses in flight or cancel them, then stop the engine.

        Live sessions end first, because uvicorn would close them without an error event.
        """
        await self._sessions.end()
        await self._until_closed()
        self.config.timeout_graceful_shutdown = self._seconds_left()
        graceful = asyncio.ensure_future(super().shutdown(sockets))
        forced = asyncio.ensure_future(self._forced.wait())
        await asyncio.wait({graceful, forced}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (graceful, forced):
            waiting.cancel()
        await asyncio.gather(graceful, forced, return_exceptions=True)
        if not graceful.cancelled():
            graceful.result()
        if self.force_exit:
            await self._break_off()
            await self.lifespan.shutdown()

    def _look_at_drain(self, deadline: float) -> None:
        spoken = self._admission.admitted
        if spoken and not self._announced:
            self._announced = True
            self._tell(f"{_utterances(spoken)} being finished; Ctrl-C stops now")
        if spoken and time.monotonic() >= deadline:
            self._tell(f"{_utterances(spoken)} broken off: limits.drain_seconds is over")
            self._force()
        if not spoken:
            self.should_exit = True

    def _force(self) -> None:
        self.should_exit = self.force_exit = True
        asyncio.get_running_loop().call_soon_threadsafe(self._forced.set)  # this may run inside a signal handler

    def _seconds_left(self) -> int:
        told = time.monotonic() if self._told is None else self._told
        return max(1, math.ceil(told + self._patience - time.monotonic()))

    async def _until_closed(self) -> None:
        """Wait until every WebSocket is closed by its client; otherwise data that was sent to it could be lost."""
        sockets = [each for each in self.server_state.connections if isinstance(each, WebSocketConnection)]
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(each.lost.wait() for each in sockets))

    async def _break_off(self) -> None:
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _utterances(count: int) -> str:
    return "1 utterance is" if count == 1 else f"{count} utterances are"


def untold(entry: logging.LogRecord) -> bool:
    """Filter uvicorn's log: drop cancellations and incomplete responses, which the request log has as ``error=``."""
    error = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and "returned without completing" not in entry.getMessage()
