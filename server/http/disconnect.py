"""Cancels work when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from starlette.types import Receive

from server.errors import ApiError, ClientDisconnected

T = TypeVar("T")


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of ``work``; cancel it as soon as the client disconnects.

    The request's body must already have been read. Raises ClientDisconnected, or what ``work`` raises.
    """
    task = asyncio.current_task()
    assert task is not None
    cancellations = task.cancelling()
    watcher = asyncio.ensure_future(_wait_for_disconnect(receive))
    disconnected = done = False

    def on_disconnect(_: asyncio.Task[None]) -> None:
        nonlocal disconnected
        if not done:
            disconnected = task.cancel()

    watcher.add_done_callback(on_disconnect)
    try:
        return await work
    except asyncio.CancelledError:
        if disconnected and task.cancelling() == cancellations + 1:  # only the disconnect cancelled it
            raise ClientDisconnected from None
        raise
    finally:
        done = True
        watcher.cancel()
        if disconnected:
            task.uncancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    with suppress(ApiError):  # from BodyLimit, if the client sends more body after its end
        while (await receive())["type"] != "http.disconnect":
            pass
