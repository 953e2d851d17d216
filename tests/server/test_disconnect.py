"""Work ends with its client, and nothing else does."""

import asyncio
from contextlib import suppress

import pytest

from server.errors import ClientDisconnected
from server.http.disconnect import cancel_on_disconnect


class Client:
    """Leaves when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
async def client() -> Client:
    return Client()


async def test_work_that_ends_first_has_its_result(client: Client) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await cancel_on_disconnect(client.receive, work()) == 7


async def test_work_is_broken_off_when_the_client_leaves(client: Client) -> None:
    broken_off = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(client.gone.set)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            broken_off.append(True)
            raise

    with pytest.raises(ClientDisconnected):
        await cancel_on_disconnect(client.receive, work())
    assert broken_off
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_leaves_as_the_work_ends_breaks_off_nothing_else(client: Client, turns: int) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        client.gone.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        return 7

    with suppress(ClientDisconnected):
        assert await cancel_on_disconnect(client.receive, work()) == 7
    for _ in range(5):
        await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_whoever_cancels_the_request_is_not_told_that_its_client_left(client: Client) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    request = asyncio.create_task(cancel_on_disconnect(client.receive, work()))
    await begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert request.cancelled()


async def test_work_that_is_late_when_the_client_leaves_has_lost_its_client(client: Client) -> None:
    async def work() -> None:
        async with asyncio.timeout(None) as deadline:
            deadline.reschedule(asyncio.get_running_loop().time())
            client.gone.set()
            await asyncio.get_running_loop().create_future()

    with pytest.raises((ClientDisconnected, TimeoutError)):
        await cancel_on_disconnect(client.receive, work())
    assert asyncio.current_task().cancelling() == 0
