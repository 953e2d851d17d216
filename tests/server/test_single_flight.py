"""Work that is done once for all who want it."""

from __future__ import annotations

import asyncio

import pytest

from server.single_flight import SingleFlightCache


class Workshop:
    """Makes things when it is let, and counts how often it began and was broken off."""

    def __init__(self) -> None:
        self.begun = self.broken_off = 0
        self.let = asyncio.Event()
        self.failure: Exception | None = None

    async def make(self) -> str:
        self.begun += 1
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        if self.failure is not None:
            raise self.failure
        return f"thing {self.begun}"


async def waiting(shared: SingleFlightCache[str], workshop: Workshop, count: int) -> list[asyncio.Task[str]]:
    """Tasks that wait for the same thing, which is being made."""
    tasks = [asyncio.create_task(shared.get(b"key", workshop.make)) for _ in range(count)]
    while not workshop.begun:
        await asyncio.sleep(0)
    return tasks


async def test_those_who_ask_meanwhile_and_later_get_the_same() -> None:
    shared, workshop = SingleFlightCache[str](8), Workshop()
    tasks = await waiting(shared, workshop, 5)
    workshop.let.set()
    assert set(await asyncio.gather(*tasks)) == {"thing 1"}
    assert await shared.get(b"key", workshop.make) == "thing 1"
    assert (workshop.begun, shared.hits) == (1, 5)


async def test_who_leaves_takes_nothing_from_the_others() -> None:
    shared, workshop = SingleFlightCache[str](8), Workshop()
    first, second, third = await waiting(shared, workshop, 3)
    first.cancel()
    third.cancel()
    await asyncio.wait({first, third})
    assert first.cancelled()
    assert third.cancelled()
    workshop.let.set()
    assert await second == "thing 1"
    assert workshop.broken_off == 0


async def test_when_the_last_one_leaves_the_work_is_given_up_and_begins_anew() -> None:
    shared, workshop = SingleFlightCache[str](8), Workshop()
    tasks = await waiting(shared, workshop, 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    workshop.let.set()
    assert await shared.get(b"key", workshop.make) == "thing 2"
    assert (workshop.begun, workshop.broken_off) == (2, 1)


async def test_a_failure_reaches_all_and_is_not_kept() -> None:
    shared, workshop = SingleFlightCache[str](8), Workshop()
    workshop.failure = ValueError("spoilt")
    tasks = await waiting(shared, workshop, 3)
    workshop.let.set()
    assert [str(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == ["spoilt"] * 3
    workshop.failure = None
    assert await shared.get(b"key", workshop.make) == "thing 2"


@pytest.mark.parametrize(("kept", "begun"), [(2, 4), (0, 5)])
async def test_what_was_not_used_for_longest_is_forgotten(kept: int, begun: int) -> None:
    shared, workshop = SingleFlightCache[str](kept), Workshop()
    workshop.let.set()
    for key in (b"a", b"b", b"a", b"c", b"b"):
        await shared.get(key, workshop.make)
    assert workshop.begun == begun
