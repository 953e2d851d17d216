"""A bound on the bytes of request bodies and large responses that are held in memory at once."""

from __future__ import annotations

from collections import Counter

from server.errors import ApiError

SMALL = 64 * 1024
"""Bodies up to this many bytes are always accepted: the connection limit is enough to bound them."""


class BodyBudget:
    """Counts body bytes as they arrive, in total and by client. Not thread-safe: for one event loop.

    Args:
        most: maximum bytes of all bodies together.
        share: fraction of ``most`` that one client may hold, above 0 and at most 1.
    """

    def __init__(self, most: int, share: float) -> None:
        self._most = most
        self._most_per_client = int(most * share)
        self._by_client: Counter[str] = Counter()
        self.held = 0

    def account(self, client: str) -> BodyAccount:
        """Create an account for one body, or for the messages of one WebSocket."""
        return BodyAccount(self, client)

    def charge(self, client: str, size: int) -> None:
        """Add ``size`` bytes, which may be negative, to the count of ``client``."""
        self.held += size
        self._by_client[client] += size
        if not self._by_client[client]:
            del self._by_client[client]

    def has_room(self, client: str, size: int) -> bool:
        """Return whether ``client`` may hold ``size`` more bytes."""
        return self.held + size <= self._most and self._by_client[client] + size <= self._most_per_client


class BodyAccount:
    """Counts the bytes in memory of one body, or of the messages of one WebSocket."""

    def __init__(self, budget: BodyBudget, client: str) -> None:
        self._budget, self._client = budget, client
        self._size = 0

    def resize(self, size: int) -> None:
        """Set the number of bytes held now. Raises ApiError 503 when it exceeds ``SMALL`` and the budget."""
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
        """Release all bytes. Idempotent."""
        self._budget.charge(self._client, -self._size)
        self._size = 0
