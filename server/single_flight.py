"""Single flight: concurrent calls for one key share one computation, and recent results are cached."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Work(Generic[T]):
    """A task, and the number of its waiters."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiting = 0


class Shared(Generic[T]):
    """A least-recently-used cache of ``kept`` results by key. Not thread-safe: for one event loop.

    Concurrent calls for a key wait for the same task. The task is cancelled when its last waiter is cancelled. A
    failure reaches all waiters and is not cached.

    hits: number of calls that found a cached result or a task in flight.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._results: OrderedDict[bytes, T] = OrderedDict()
        self._works: dict[bytes, _Work[T]] = {}
        self.hits = 0

    async def get(self, key: bytes, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the cached result for ``key``, or the result of ``make``. Raises what ``make`` raises."""
        if key in self._results:
            self.hits += 1
            self._results.move_to_end(key)
            return self._results[key]
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _Work(asyncio.create_task(self._make(key, make)))
        else:
            self.hits += 1
        return await self._wait(key, work)

    async def _wait(self, key: bytes, work: _Work[T]) -> T:
        work.waiting += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.waiting -= 1
            if not work.waiting:
                work.task.cancel()
                self._forget(key, work)

    async def _make(self, key: bytes, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result = await make()
        self._results[key] = result
        while len(self._results) > self._kept:
            self._results.popitem(last=False)
        return result

    def _forget(self, key: bytes, work: _Work[T]) -> None:
        if self._works.get(key) is work:
            del self._works[key]
