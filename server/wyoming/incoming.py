"""The incoming events of a connection, with one event read ahead, so that a disconnect is noticed at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from wyoming.event import Event

from server.errors import ApiError
from server.http.disconnect import cancel_on_disconnect
from server.wyoming.events import EventReader


class IncomingEvents:
    """The events of one client, in order. Call ``close`` at the end."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._task: asyncio.Task[Event | None] | None = None

    @property
    def receiving(self) -> asyncio.Task[Event | None]:
        """The task that reads the next event."""
        if self._task is None:
            self._task = asyncio.create_task(self._reader.read())
        return self._task

    async def next(self) -> Event | None:
        """Return the next event; None when the client disconnected. Raises ApiError for an invalid one."""
        event = await asyncio.shield(self.receiving)
        self._task = None
        return event

    async def while_connected(self, work: Awaitable[None]) -> None:
        """Await ``work``; cancel it and raise ClientDisconnected as soon as the client disconnects."""
        await cancel_on_disconnect(self._disconnected, work)

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _disconnected(self) -> dict[str, Any]:
        """Return ASGI's message at the end of the connection. An event that arrives meanwhile is returned later."""
        with suppress(ApiError):
            if await asyncio.shield(self.receiving) is None:
                return {"type": "http.disconnect"}
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
