"""The open live sessions of a server: limits, and graceful shutdown."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from server.errors import ApiError
from server.http.clients import client_quota

_CLOSE_SECONDS = 1.0
"""Upper bound on how long shutdown waits for clients that stopped reading."""


class Sessions:
    """The open sessions: at most ``limit`` in all, and at most the fraction ``share`` of them for one client."""

    def __init__(self, limit: int, share: float) -> None:
        self._limit, self._limit_of_client = limit, client_quota(limit, share)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._of_client: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def session(self, client: str) -> Iterator[None]:
        """Count the current task as a session of ``client``; ``end`` cancels the task.

        Raises ApiError 429 when there are too many sessions, in all or of this client.
        """
        self._check_room(client)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._of_client[client] += 1
        try:
            yield
        finally:
            self._tasks.discard(task)
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]

    def _check_room(self, client: str) -> None:
        if len(self._tasks) >= self._limit:
            message = f"at most {self._limit} live sessions can be open (limits.max_live_sessions); try again later"
        elif self._of_client[client] >= self._limit_of_client:
            message = (
                f"one client can have at most {self._limit_of_client} of the {self._limit} live sessions "
                "(limits.client_share); close one first"
            )
        else:
            return
        raise ApiError(message, status=429, code="rate_limit_exceeded")

    async def end(self) -> None:
        """Cancel all sessions and wait until each has sent its error event and its close frame."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
