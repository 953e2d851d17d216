"""Limits the bytes of request bodies and large responses that are in memory at the same time."""

from __future__ import annotations

from collections import Counter

from server.errors import ApiError

SMALL_BODY_BYTES = 64 * 1024
"""Bodies up to this size are always accepted: the connection limit is enough to bound them."""


class BodyBudget:
    """Counts body bytes as they arrive, in total and by client. Not thread-safe: for one event loop.

    Args:
        max_bytes: maximum bytes of all bodies together.
        client_share: fraction of ``max_bytes`` that one client may use, above 0 and at most 1.
    """

    def __init__(self, max_bytes: int, client_share: float) -> None:
        self.max_bytes = max_bytes
        self._max_client_bytes = int(max_bytes * client_share)
        self._by_client: Counter[str] = Counter()
        self.used = 0

    def account(self, client: str) -> BodyAccount:
        """Create an account for one body, or for the messages of one WebSocket."""
        return BodyAccount(self, client)

    def charge(self, client: str, size: int) -> None:
        """Add ``size`` bytes, which may be negative, to the count of ``client``."""
        self.used += size
        self._by_client[client] += size
        if not self._by_client[client]:
            del self._by_client[client]

    def has_room(self, client: str, size: int) -> bool:
        """Return whether ``client`` may use ``size`` more bytes."""
        return self.used + size <= self.max_bytes and self._by_client[client] + size <= self._max_client_bytes


class BodyAccount:
    """Counts the bytes in memory of one body, or of the messages of one WebSocket."""

    def __init__(self, budget: BodyBudget, client: str) -> None:
        self._budget, self._client = budget, client
        self._size = 0

    def resize(self, size: int) -> None:
        """Set the number of bytes in memory. Raises ApiError 503 if it exceeds ``SMALL_BODY_BYTES`` and the budget."""
        growth = size - self._size
        if growth > 0 and size > SMALL_BODY_BYTES and not self._budget.has_room(self._client, growth):
            raise ApiError(
                f"No memory is left for a body of {size} bytes: request and response bodies in flight may use "
                f"{self._budget.max_bytes} bytes (limits.max_bodies_bytes), and those of one client a share of that "
                "(limits.client_share). Try again later.",
                status=503,
                code="server_busy",
            )
        self._budget.charge(self._client, growth)
        self._size = size

    def close(self) -> None:
        """Release all bytes. Idempotent."""
        self._budget.charge(self._client, -self._size)
        self._size = 0
