"""Full garbage collections wait until every listener has enough audio."""

import asyncio
import gc
import sys
import weakref
from contextlib import suppress
from math import inf

import pytest

from server.http.garbage_collection import collect_unnoticed
from server.telemetry.outcomes import Outcomes
from server.telemetry.record import Playback, RequestRecord

TIMEOUT = 30.0
INTERVAL = 0.01

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 collects in small steps by itself")


class _Connection:
    """An object of the oldest generation in a cycle, as an ended connection leaves it."""

    def __init__(self) -> None:
        self.transport = self


def _ended_connection() -> "weakref.ref[_Connection]":
    connection = _Connection()
    gc.collect()
    return weakref.ref(connection)


def _allocate(middle_collections: int) -> list[list[int]]:
    """Allocate objects until the middle generation was collected that many times more."""
    kept: list[list[int]] = []
    until = gc.get_count()[2] + middle_collections
    while gc.get_count()[2] < until:
        kept.append([])
    return kept


async def _until(condition) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(INTERVAL)


@pytest.mark.asyncio
async def test_a_full_collection_waits_for_a_listener_who_has_just_begun() -> None:
    left, asked = [0.1], []

    def audio_left() -> float:
        asked.append(left[0])
        return left[0]

    collecting = asyncio.create_task(collect_unnoticed(audio_left, INTERVAL))
    await asyncio.sleep(0)
    ended = _ended_connection()
    kept = _allocate(15)
    await _until(lambda: len(asked) > 3)
    assert ended() is not None
    left[0] = 2.0
    await _until(lambda: ended() is None)
    collecting.cancel()
    assert kept


@pytest.mark.asyncio
async def test_a_full_collection_does_not_wait_for_ever() -> None:
    collecting = asyncio.create_task(collect_unnoticed(lambda: 0.0, INTERVAL))
    await asyncio.sleep(0)
    ended = _ended_connection()
    kept = _allocate(35)
    await _until(lambda: ended() is None)
    collecting.cancel()
    assert kept


@pytest.mark.asyncio
async def test_the_thresholds_of_python_return_when_the_server_ends() -> None:
    before = gc.get_threshold()
    collecting = asyncio.create_task(collect_unnoticed(lambda: inf, INTERVAL))
    await asyncio.sleep(0)
    assert gc.get_threshold() != before
    collecting.cancel()
    with suppress(asyncio.CancelledError):
        await collecting
    assert gc.get_threshold() == before


def test_the_listener_with_the_least_audio_counts() -> None:
    outcomes = Outcomes(10)
    assert outcomes.audio_left() == inf
    for number, seconds in enumerate((4.0, 0.08, None)):
        record = RequestRecord(f"req_{number}", playback=Playback(clock=lambda: 0.0))
        outcomes.add_running(record)
        if seconds is not None:
            record.add_samples(round(24_000 * seconds))
    assert outcomes.audio_left() == pytest.approx(0.08)


def test_clients_that_do_not_read_do_not_count() -> None:
    outcomes = Outcomes(10)
    now = [0.0]
    record = RequestRecord("req", playback=Playback(clock=lambda: now[0]))
    outcomes.add_running(record)
    record.add_samples(24_000)
    now[0] = 60.0
    assert outcomes.audio_left() == inf
