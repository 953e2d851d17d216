"""Received audio reaches its requests in order, first and last chunks before others of other requests."""

import asyncio
import time

from engine.client.delivery import Delivery
from engine.transfer import Kind, Record


NOW = time.monotonic()


def record(stream, sequence, kind=Kind.DATA, sent=NOW + 3600):
    return Record(stream, kind, sequence, 1, sent, b"")


async def iterations(condition):
    """Return after how many iterations of the event loop ``condition`` holds."""
    for count in range(1000):
        if condition():
            return count
        await asyncio.sleep(0)
    raise AssertionError("the condition never holds")


async def test_first_chunks_do_not_wait_for_later_chunks_that_arrived_before():
    delivered = []
    delivery = Delivery(delivered.append)
    delivery.add([record(stream, 9) for stream in range(100)])
    delivery.add([record(200, 1), record(200, 2), record(200, 3)])
    assert delivered == [record(200, 1), record(200, 2), record(200, 3)]
    assert await iterations(lambda: len(delivered) == 103) > 5
    assert delivered[3:] == [record(stream, 9) for stream in range(100)]


async def test_the_records_of_a_stream_keep_their_order():
    delivered = []
    delivery = Delivery(delivered.append)
    sent = [record(7, number) for number in range(1, 30)] + [record(7, 30, Kind.END)]
    for start in range(0, 30, 2):
        delivery.add(sent[start : start + 2])
        await asyncio.sleep(0)
    await iterations(lambda: len(delivered) == 30)
    assert delivered == sent


async def test_an_end_is_delivered_at_once_after_the_waiting_chunks_of_its_stream():
    delivered = []
    delivery = Delivery(delivered.append)
    delivery.add([*(record(stream, 9) for stream in range(100)), record(50, 10), record(50, 11, Kind.END)])
    assert delivered == [record(50, 9), record(50, 10), record(50, 11, Kind.END)]
    await iterations(lambda: len(delivered) == 102)
    assert [each.stream for each in delivered[3:]] == [stream for stream in range(100) if stream != 50]


async def test_old_records_are_delivered_together():
    delivered = []
    delivery = Delivery(delivered.append)
    delivery.add([record(stream, 5, sent=NOW - 1) for stream in range(500)])
    delivery.add([record(stream, 5) for stream in range(500, 600)])
    await iterations(lambda: delivered)
    assert len(delivered) == 500
    await iterations(lambda: len(delivered) == 600)


async def test_flush_delivers_everything_once():
    delivered = []
    delivery = Delivery(delivered.append)
    delivery.add([record(stream, 5) for stream in range(50)])
    delivery.flush()
    assert len(delivered) == 50
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(delivered) == 50
