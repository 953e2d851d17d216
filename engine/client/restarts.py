"""Starts the engine process, and replaces it with a back-off after it was lost. Imports no torch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from engine.client.process import EngineProcess
from engine.client.watchdog import Reason

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_MAX_STARTS = 3
"""Maximum number of starts of an engine that has never been ready."""
_log = logging.getLogger(__name__)


class EngineRestarts:
    """Starts one engine process at a time, and counts the starts. Runs in the client's event loop.

    launch: starts a process and returns at once; raises if the process cannot be started.
    """

    def __init__(self, launch: Callable[[], None]) -> None:
        self.counts: dict[str, int] = {"crashed": 0, "stalled": 0, "failed": 0}
        """Number of replaced processes, by reason."""
        self.starts = 0
        self._launch = launch
        self._backoff = _FIRST_BACKOFF_S
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

    def reset_backoff(self) -> None:
        """Begin again with the shortest pause before a start, because the engine is ready."""
        self._backoff = _FIRST_BACKOFF_S

    def close_worker(self, worker: EngineProcess) -> None:
        """Free the resources of a lost process, in the background."""
        self._closing = asyncio.get_running_loop().create_task(worker.close())

    def replace(self, worker: EngineProcess, reason: Reason) -> None:
        """Close a lost process and start another one, in the background."""
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
        _log.error("restarting the engine process: it %s, exit code %s", reason, worker.process.returncode)
        self.counts[reason] += 1
        while True:
            await asyncio.sleep(self._backoff)
            self._backoff = min(2 * self._backoff, _MAX_BACKOFF_S)
            try:
                self.start()
                return
            except Exception:
                _log.exception("the engine process could not be started")
