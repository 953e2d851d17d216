"""Graceful shutdown: accepted requests finish, new ones are refused, a second signal stops the server at once."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import uvicorn
from typing_extensions import override

from server.http.child_process import FORCE_SIGNAL, STOP_SIGNAL, Heartbeat
from server.http.descriptors import prepare_listeners
from server.http.websockets import WebSocketConnection
from server.live.sessions import Sessions
from server.processes.peers import Peers
from server.synthesis.admission_group import AdmissionGroup

_CLOSE_SECONDS = 1.0
"""Upper bound on how long shutdown waits for clients that do not answer the close frame."""
_PEERS_SECONDS = 5.0
"""Upper bound on how long a forced stop waits for the other HTTP processes, which log the requests they cancel."""


class Server(uvicorn.Server):
    """A uvicorn server that drains on a stop signal: it listens and responds until the last accepted request ends.

    ``uvicorn_hooks`` lists what it uses of uvicorn.

    Args:
        config: uvicorn's configuration.
        admission: refuses new requests while the server drains.
        sessions: the live sessions, which shutdown ends.
        drain_seconds: seconds after the stop signal at which requests in flight are cancelled.
        report: called with progress messages for the operator.
        heartbeat: tells the supervisor that the event loop runs, from the time that connections are accepted until
            the loop ends.
        peers: returns the other HTTP processes of the server.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        admission: AdmissionGroup,
        sessions: Sessions,
        drain_seconds: float,
        report: Callable[[str], None],
        heartbeat: Heartbeat,
        peers: Callable[[], Peers] = Peers,
    ) -> None:
        super().__init__(config)
        self._admission = admission
        self._sessions = sessions
        self._drain_seconds = drain_seconds
        self._report = report
        self._heartbeat, self._peers = heartbeat, peers
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._stop_requested_at: float | None = None
        self._drain_reported = False
        self._forced = asyncio.Event()

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle the supervisor's signals instead of SIGINT and SIGTERM, which the supervisor handles."""
        before = {number: signal.signal(number, self.handle_exit) for number in (STOP_SIGNAL, FORCE_SIGNAL)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, accept connections, and start the heartbeat."""
        await super().startup(sockets)
        prepare_listeners(sockets or [])
        self._heartbeat_task = asyncio.create_task(self._heartbeat.run())

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on ``STOP_SIGNAL``, stop at once on ``FORCE_SIGNAL``.

        uvicorn would store the signal and raise it again after shutdown. A requested stop is not a failure, so it is
        not stored.
        """
        if self._stop_requested_at is None:
            self._stop_requested_at = time.monotonic()
            self._admission.close()
        if sig == FORCE_SIGNAL or self.should_exit:
            self._force_exit()

    @override
    async def on_tick(self, counter: int) -> bool:
        """Check the drain and return whether to exit. uvicorn calls this ten times a second."""
        if self._stop_requested_at is not None:
            self._check_drain(self._stop_requested_at + self._drain_seconds)
        return await super().on_tick(counter)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections, wait for responses in flight or cancel them, then stop the engine.

        Live sessions end first, because uvicorn would close them without an error event.
        """
        await self._sessions.end()
        await self._wait_for_websockets()
        peers = self._peers()
        if self._stop_requested_at is not None:
            await self._until_forced(peers.wait_ended(self._seconds_left()))
        self.config.timeout_graceful_shutdown = self._seconds_left()
        await self._until_forced(super().shutdown(sockets))
        if self.force_exit:
            await self._cancel_requests()
            await peers.wait_ended(_PEERS_SECONDS)
            await self.lifespan.shutdown()

    async def _until_forced(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for ``work``, and cancel it when the server is stopped at once."""
        working, forced = asyncio.ensure_future(work), asyncio.ensure_future(self._forced.wait())
        await asyncio.wait({working, forced}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (working, forced):
            waiting.cancel()
        await asyncio.gather(working, forced, return_exceptions=True)
        if not working.cancelled():
            working.result()

    def _check_drain(self, deadline: float) -> None:
        """Exit when no utterance is in flight, or at the deadline."""
        running = self._admission.ticket_count
        limit = f"limits.drain_seconds ({self._drain_seconds:g} s)"
        if running and not self._drain_reported:
            self._drain_reported = True
            self._report(f"Stopping: {_utterances(running)} in flight may finish within {limit}; Ctrl-C stops now")
        if not running and self._peers().may_exit():
            self.should_exit = True
        elif time.monotonic() >= deadline:
            if running:
                self._report(f"Stopping: {limit} is over, {_utterances(running)} in flight cancelled")
            self._force_exit()

    def _force_exit(self) -> None:
        self.should_exit = self.force_exit = True
        asyncio.get_running_loop().call_soon_threadsafe(self._forced.set)  # this may run inside a signal handler

    def _seconds_left(self) -> int:
        now = time.monotonic()
        requested = now if self._stop_requested_at is None else self._stop_requested_at
        return max(1, math.ceil(requested + self._drain_seconds - now))

    async def _wait_for_websockets(self) -> None:
        """Wait until every WebSocket is closed by its client; otherwise data that was sent to it could be lost."""
        sockets = [each for each in self.server_state.connections if isinstance(each, WebSocketConnection)]
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(each.closed.wait() for each in sockets))

    async def _cancel_requests(self) -> None:
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _utterances(count: int) -> str:
    return "1 utterance" if count == 1 else f"{count} utterances"


def is_not_in_request_log(entry: logging.LogRecord) -> bool:
    """Filter uvicorn's log: drop cancellations and incomplete responses, which the request log has as ``error=``."""
    error = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and "returned without completing" not in entry.getMessage()
