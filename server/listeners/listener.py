"""The interface of a listener for a protocol beside HTTP."""

from __future__ import annotations

from typing import Protocol

from server.services import CurrentServices


class Listener(Protocol):
    """Accepts requests in a protocol of its own, and passes them to the same synthesis as HTTP requests."""

    async def start(self, current: CurrentServices) -> None:
        """Accept connections. Raises OSError."""

    async def close(self) -> None:
        """Close idle connections, end requests in flight with the error ``stopped``, and stop listening.

        The server calls it after the drain, so usually no request is in flight.
        """
