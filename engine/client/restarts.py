"""Starts the engine process, and replaces it with a back-off after it was lost. Imports no torch."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from engine.client.process import EngineProcess
from engine.client.watchdog import Reason

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_HEALTHY_S = 60.0
"""An engine that was ready for this many seconds resets the back-off. One that starts and crashes at its first request
does not, so its back-off grows."""
_MAX_STARTS = 3
"""Maximum number of starts of an engine that has never been ready."""
_log = logging.getLogger(__name__)


class EngineRestarts:
    """Starts one engine process at a time, and counts the starts. Runs in the client's event loop.

    Args:
        launch: starts a process and returns at once; raises if the process cannot be started.
        name: of the engine, for the log.
        clock: returns monotonic seconds.
        sleep: waits for the given seconds.
    """

    def __init__(
        self,
        launch: Callable[[], None],
        name: str = "0",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.counts: dict[str, int] = {"crashed": 0, "stalled": 0, "failed": 0}
        """Number of replaced processes, by reason."""
        self.starts = 0
        self._launch, self._name, self._clock, self._sleep = launch, name, clock, sleep
        self._backoff = _FIRST_BACKOFF_S
        self._ready_at: float | None = None
        """When the running process became ready; None before."""
        self._closing: asyncio.Future[None] | None = None
        self._replacement: asyncio.Task[None] | None = None

    @property
    def exhausted(self) -> bool:
        """Whether an engine that has never been ready should not be started again."""
        return self.starts >= _MAX_STARTS

    def start(self) -> None:
        """Start a process."""
        self.starts += 1
        self._launch()

    def mark_ready(self) -> None:
        """Record that the running process is ready. If it is lost after a minute or later, the back-off is reset."""
        self._ready_at = self._clock()

    def close_worker(self, worker: EngineProcess) -> None:
        """Free the resources of a lost process, in the background."""
        self._closing = asyncio.get_running_loop().create_task(worker.close())

    def replace(self, worker: EngineProcess, reason: Reason) -> None:
        """Close a lost process and start another one, in the background."""
        if self._ready_at is not None and self._clock() - self._ready_at >= _HEALTHY_S:
            self._backoff = _FIRST_BACKOFF_S
        self._ready_at = None
        self.close_worker(worker)
        assert self._closing is not None
        self._replacement = asyncio.get_running_loop().create_task(self._replace(worker, self._closing, reason))

    def cancel(self) -> None:
        """Start no more processes."""
        if self._replacement is not None:
            self._replacement.cancel()

    async def wait_closed(self) -> None:
        """Wait until the resources of the last lost process are free."""
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def _replace(self, worker: EngineProcess, closing: asyncio.Future[None], reason: Reason) -> None:
        await asyncio.wait({closing})
        code = worker.process.returncode
        self.counts[reason] += 1
        while True:
            pause, self._backoff = self._backoff, min(2 * self._backoff, _MAX_BACKOFF_S)
            _log.error(
                "restarting the engine process: it %s, exit code %s; next start of engine %s in %g s",
                reason,
                code,
                self._name,
                pause,
            )
            await self._sleep(pause)
            try:
                self.start()
                return
            except Exception:
                _log.exception("the process of engine %s could not be started", self._name)
