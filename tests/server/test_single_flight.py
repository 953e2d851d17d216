"""Concurrent calls that share one computation."""

from __future__ import annotations

import asyncio

import pytest

from server.single_flight import SingleFlightCache


class Producer:
    """Produces a value when released; counts how often it started and was cancelled."""

    def __init__(self) -> None:
        self.started = self.cancelled = 0
        self.release = asyncio.Event()
        self.failure: Exception | None = None

    async def make(self) -> str:
        self.started += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        return f"thing {self.started}"


async def waiting_tasks(shared: SingleFlightCache[str], producer: Producer, count: int) -> list[asyncio.Task[str]]:
    """Tasks that wait for the same value, whose production has started."""
    tasks = [asyncio.create_task(shared.get(b"key", producer.make)) for _ in range(count)]
    while not producer.started:
        await asyncio.sleep(0)
    return tasks


async def test_concurrent_and_later_calls_get_the_same_value() -> None:
    shared, producer = SingleFlightCache[str](8), Producer()
    tasks = await waiting_tasks(shared, producer, 5)
    producer.release.set()
    assert set(await asyncio.gather(*tasks)) == {"thing 1"}
    assert await shared.get(b"key", producer.make) == "thing 1"
    assert (producer.started, shared.hits) == (1, 5)


async def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    shared, producer = SingleFlightCache[str](8), Producer()
    first, second, third = await waiting_tasks(shared, producer, 3)
    first.cancel()
    third.cancel()
    await asyncio.wait({first, third})
    assert first.cancelled()
    assert third.cancelled()
    producer.release.set()
    assert await second == "thing 1"
    assert producer.cancelled == 0


async def test_when_all_callers_cancel_the_computation_is_cancelled_and_restarted() -> None:
    shared, producer = SingleFlightCache[str](8), Producer()
    tasks = await waiting_tasks(shared, producer, 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    producer.release.set()
    assert await shared.get(b"key", producer.make) == "thing 2"
    assert (producer.started, producer.cancelled) == (2, 1)


async def test_a_failure_reaches_all_callers_and_is_not_cached() -> None:
    shared, producer = SingleFlightCache[str](8), Producer()
    producer.failure = ValueError("failed")
    tasks = await waiting_tasks(shared, producer, 3)
    producer.release.set()
    assert [str(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == ["failed"] * 3
    producer.failure = None
    assert await shared.get(b"key", producer.make) == "thing 2"


@pytest.mark.parametrize(("size", "started"), [(2, 4), (0, 5)])
async def test_the_least_recently_used_value_is_evicted(size: int, started: int) -> None:
    shared, producer = SingleFlightCache[str](size), Producer()
    producer.release.set()
    for key in (b"a", b"b", b"a", b"c", b"b"):
        await shared.get(key, producer.make)
    assert producer.started == started
