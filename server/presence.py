"""Work that is only worth doing while the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from server.errors import ClientLeft

T = TypeVar("T")


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled as soon as the client closes its connection.

    Raises ClientLeft, or whatever ``work`` raises. The request's body must have been read.
    """
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(_until_disconnect(receive))
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientLeft
    finally:
        task.cancel()
        left.cancel()
        await asyncio.gather(task, left, return_exceptions=True)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
