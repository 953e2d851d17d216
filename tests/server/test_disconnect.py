"""A client's disconnect cancels its own work and nothing else."""

import asyncio
from contextlib import suppress

import pytest

from server.errors import ClientDisconnected
from server.http.disconnect import cancel_on_disconnect


class Client:
    """A client that disconnects on request."""

    def __init__(self) -> None:
        self.disconnected = asyncio.Event()

    async def receive(self):
        await self.disconnected.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
async def client() -> Client:
    return Client()


async def test_work_that_finishes_first_returns_its_result(client: Client) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await cancel_on_disconnect(client.receive, work()) == 7


async def test_a_disconnect_cancels_the_work(client: Client) -> None:
    cancelled = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(client.disconnected.set)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(ClientDisconnected):
        await cancel_on_disconnect(client.receive, work())
    assert cancelled
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("iterations", range(6))
async def test_a_disconnect_as_the_work_finishes_cancels_nothing_else(client: Client, iterations: int) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        client.disconnected.set()
        for _ in range(iterations):
            await asyncio.sleep(0)
        return 7

    with suppress(ClientDisconnected):
        assert await cancel_on_disconnect(client.receive, work()) == 7
    for _ in range(5):
        await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_cancellation_of_the_request_is_not_reported_as_a_disconnect(client: Client) -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    request = asyncio.create_task(cancel_on_disconnect(client.receive, work()))
    await started.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert request.cancelled()


async def test_work_that_times_out_during_a_disconnect_raises_either_error(client: Client) -> None:
    async def work() -> None:
        async with asyncio.timeout(None) as deadline:
            deadline.reschedule(asyncio.get_running_loop().time())
            client.disconnected.set()
            await asyncio.get_running_loop().create_future()

    with pytest.raises((ClientDisconnected, TimeoutError)):
        await cancel_on_disconnect(client.receive, work())
    assert asyncio.current_task().cancelling() == 0
