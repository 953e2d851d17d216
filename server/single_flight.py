"""Single flight: concurrent calls for one key share one computation, and recent results are cached."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Flight(Generic[T]):
    """A computation in flight, and the number of its waiters."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiters = 0


class SingleFlightCache(Generic[T]):
    """A least-recently-used cache of at most ``max_results`` results by key. Not thread-safe: for one event loop.

    Concurrent calls for a key wait for the same task. The task is cancelled when its last waiter is cancelled. A
    failure reaches all waiters and is not cached.

    hits: number of calls that found a cached result or a task in flight.
    """

    def __init__(self, max_results: int) -> None:
        self._max_results = max_results
        self._results: OrderedDict[bytes, T] = OrderedDict()
        self._in_flight: dict[bytes, _Flight[T]] = {}
        self.hits = 0

    def adopt(self, other: SingleFlightCache[T]) -> None:
        """Copy the cached results of ``other``, which must have the same size, and continue its count of hits."""
        self._results = OrderedDict(other._results)
        self.hits = other.hits

    async def get(self, key: bytes, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the cached result for ``key``, or the result of ``compute``. Raises what ``compute`` raises."""
        if key in self._results:
            self.hits += 1
            self._results.move_to_end(key)
            return self._results[key]
        flight = self._in_flight.get(key)
        if flight is None:
            flight = self._in_flight[key] = _Flight(asyncio.create_task(self._compute(key, compute)))
        else:
            self.hits += 1
        return await self._wait(key, flight)

    async def _wait(self, key: bytes, flight: _Flight[T]) -> T:
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters:
                flight.task.cancel()
                self._forget(key, flight)

    async def _compute(self, key: bytes, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result = await compute()
        self._results[key] = result
        while len(self._results) > self._max_results:
            self._results.popitem(last=False)
        return result

    def _forget(self, key: bytes, flight: _Flight[T]) -> None:
        if self._in_flight.get(key) is flight:
            del self._in_flight[key]
