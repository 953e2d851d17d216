"""Unloads the engines of a pool after a time without requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_CHECKS = 10
"""The idle time is checked this many times in ``keep_alive`` seconds."""


class IdleTimer:
    """Calls ``unload`` after ``keep_alive`` seconds in which ``busy`` was false and ``touch`` was not called.

    keep_alive: seconds; never if negative. Use it in one event loop.
    """

    def __init__(self, keep_alive: float, busy: Callable[[], bool], unload: Callable[[], None]) -> None:
        self._keep_alive, self._busy, self._unload = keep_alive, busy, unload
        self._used_at = 0.0
        self._watching = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch."""
        self.touch()
        self._watching = self._keep_alive >= 0
        self.check()

    def stop(self) -> None:
        """Stop watching."""
        self._watching = False
        if self._timer is not None:
            self._timer.cancel()

    def touch(self) -> None:
        """Count the idle time from now on."""
        self._used_at = time.monotonic()

    def check(self) -> None:
        """Unload if the pool was idle long enough, and check again later; no-op when it is not watched."""
        if not self._watching:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._busy():
            self.touch()
        elif time.monotonic() - self._used_at >= self._keep_alive:
            self._unload()
        pause = max(0.1, self._keep_alive / _CHECKS)
        self._timer = asyncio.get_running_loop().call_later(pause, self.check)
