"""The other HTTP processes of a server, as one process uses them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics_core import Metric

from server.errors import ApiError

ANSWER_SECONDS = 2.0
"""Timeout for the answer of another process. Its event loop may be busy, but not for long."""


@dataclass(frozen=True, slots=True)
class Role:
    """Which of the HTTP processes of a server a process is.

    arrivals: in the main process, the socket from which its connections to additional processes arrive.
    main: in an additional process, its connection to the main process, which runs the engines.
    on_main_lost: is called when the main process has ended.
    """

    arrivals: socket.socket | None = None
    main: socket.socket | None = None
    on_main_lost: Callable[[], None] = lambda: None


ONLY_PROCESS = Role()
"""The role of the only HTTP process of a server."""


class Peers:
    """What a process asks and tells the other ones. These methods are those of the only HTTP process of a server."""

    async def started(self) -> None:
        """Call this when the engines are ready. In the main process, it waits for the additional ones."""

    def may_exit(self) -> bool:
        """Tell that this process is stopping and has no request in flight. Return whether no other one has any."""
        return True

    async def wait_ended(self, timeout: float) -> None:
        """In the main process, let the additional ones exit, and wait until they have, at most ``timeout`` seconds."""

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that another process has served, as JSON fields; None if there is none.

        Raises ApiError 503 if it may be known to a process that does not answer.
        """
        return None

    async def metrics(self) -> list[list[Metric]]:
        """Return the metrics of the other processes; nothing in a process that does not collect them."""
        return []

    async def metrics_page(self, accept: str) -> tuple[bytes, str] | None:
        """Return the metrics page and its media type from the process that collects them; None in that process.

        Raises ApiError 503 if that process does not answer.
        """
        return None


def no_answer() -> ApiError:
    """Return the error for a client whose answer is in a process that does not answer."""
    return ApiError(
        "another HTTP process of this server does not answer; try again later", status=503, code="server_busy"
    )
