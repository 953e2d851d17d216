"""A bound on the bytes of request bodies and large responses that are held in memory at once."""

from __future__ import annotations

from collections import Counter

from server.errors import ApiError

SMALL = 64 * 1024
"""Bodies up to this many bytes are always accepted: the limit on connections bounds them well enough."""


class BodyBudget:
    """Counts body bytes as they arrive, in total and by client. Not thread-safe: for one event loop.

    Args:
        most: bytes of all bodies together.
        share: part of ``most`` that one client may hold, above 0 and at most 1.
    """

    def __init__(self, most: int, share: float) -> None:
        self._most = most
        self._most_per_client = int(most * share)
        self._by_client: Counter[str] = Counter()
        self.held = 0

    def account(self, client: str) -> BodyAccount:
        """An account for one body, or for the messages of one WebSocket."""
        return BodyAccount(self, client)

    def charge(self, client: str, size: int) -> None:
        """Count ``size`` more bytes (fewer, where negative) for ``client``."""
        self.held += size
        self._by_client[client] += size
        if not self._by_client[client]:
            del self._by_client[client]

    def has_room(self, client: str, size: int) -> bool:
        """Whether ``client`` may hold ``size`` more bytes."""
        return self.held + size <= self._most and self._by_client[client] + size <= self._most_per_client


class BodyAccount:
    """The bytes that one body, or one WebSocket, holds."""

    def __init__(self, budget: BodyBudget, client: str) -> None:
        self._budget, self._client = budget, client
        self._size = 0

    def resize(self, size: int) -> None:
        """Set how many bytes are held now. Raises ApiError 503 when that is more than there is room for."""
        more = size - self._size
        if more > 0 and size > SMALL and not self._budget.has_room(self._client, more):
            raise ApiError(
                f"The server holds as many bytes of request and response bodies as it may (limits.max_bodies_bytes), "
                f"and this one has more than {SMALL} bytes; try again later.",
                status=503,
                code="server_busy",
            )
        self._budget.charge(self._client, more)
        self._size = size

    def close(self) -> None:
        """Release everything. May be called more than once."""
        self._budget.charge(self._client, -self._size)
        self._size = 0
