"""Endpoints whose records are received in an event loop: nothing is missed, and no thread is needed."""

import asyncio

import pytest

from engine.transfer import Kind, LoopWakeup, Wakeup, pair

TIMEOUT = 20.0
STREAM = 1


class Receiver:
    """An endpoint in the running event loop, and all records that it has received."""

    def __init__(self, side):
        self.records, self._changed = [], asyncio.Event()
        self.wakeup = LoopWakeup(asyncio.get_running_loop(), self._receive, lambda: self.endpoint.pending())
        self.endpoint = side.attach(self.wakeup, backlog=1 << 20)

    def _receive(self):
        self.records += self.endpoint.receive()
        self._changed.set()

    async def until(self, holds):
        async with asyncio.timeout(TIMEOUT):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def close(self):
        self.wakeup.stop()
        self.endpoint.close()


@pytest.fixture
async def link():
    near, far = pair(window=100_000, capacity=4096)
    receiver, sender = Receiver(near), far.attach(Wakeup())
    yield receiver, sender
    receiver.close()
    sender.close()


async def test_records_of_a_busy_sender_all_arrive_in_order(link):
    receiver, sender = link

    def send():
        sender.open(STREAM)
        for number in range(5000):
            sender.send(STREAM, number.to_bytes(4, "little"), 1)
        sender.end(STREAM)

    sending = asyncio.create_task(asyncio.to_thread(send))
    await receiver.until(lambda: receiver.records and receiver.records[-1].kind is Kind.END)
    await sending
    received = [int.from_bytes(each.payload, "little") for each in receiver.records if each.kind is Kind.DATA]
    assert received == list(range(5000))


async def test_records_that_arrive_one_by_one_each_wake_the_loop(link):
    receiver, sender = link
    sender.open(STREAM)
    for number in range(200):
        sender.send(STREAM, b"", 1)
        await receiver.until(lambda expected=number + 2: len(receiver.records) == expected)


async def test_what_was_sent_before_the_peer_ended_arrives_and_then_the_end(link):
    receiver, sender = link
    sender.open(STREAM)
    sender.send(STREAM, b"last", 1)
    await asyncio.to_thread(sender.close)
    await receiver.until(lambda: receiver.records and receiver.records[-1].kind is Kind.FAIL)
    assert [each.payload for each in receiver.records if each.kind is Kind.DATA] == [b"last"]
    assert not receiver.endpoint.alive


async def test_records_that_wait_for_room_are_sent_when_the_peer_has_read(link):
    receiver, peer = link
    receiver.endpoint.open(STREAM)
    for number in range(100):
        receiver.endpoint.send(STREAM, bytes([number]) * 500, 1)
    received = []

    def receive():
        while len(received) < 101:
            assert peer_wakeup.wait_for(peer.pending, TIMEOUT)
            received.extend(peer.receive())

    peer_wakeup = peer._wakeup
    await asyncio.to_thread(receive)
    assert [each.payload[0] for each in received[1:]] == list(range(100))


async def test_stop_ends_the_wake_ups(link):
    receiver, sender = link
    sender.open(STREAM)
    await receiver.until(lambda: len(receiver.records) == 1)
    receiver.wakeup.stop()
    sender.send(STREAM, b"", 1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(receiver.records) == 1
