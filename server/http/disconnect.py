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

    The request's body must have been read before. Raises ClientDisconnected, or what ``work`` raises.
    """
    working = asyncio.current_task()
    assert working is not None
    cancellations = working.cancelling()
    watch = asyncio.ensure_future(_wait_for_disconnect(receive))
    left = done = False

    def leave(_: asyncio.Task[None]) -> None:
        nonlocal left
        if not done:
            left = working.cancel()

    watch.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if left and working.cancelling() == cancellations + 1:  # only the disconnect cancelled it
            raise ClientDisconnected from None
        raise
    finally:
        done = True
        watch.cancel()
        if left:
            working.uncancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    with suppress(ApiError):  # from BodyLimit, if the client sends more body after its end
        while (await receive())["type"] != "http.disconnect":
            pass
