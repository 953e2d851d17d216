"""How many speech requests the server takes on at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from server.errors import ApiError


class Admission:
    """Seats for requests that run or wait; when all are taken the next one is told to come back."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._taken = 0

    @property
    def taken(self) -> int:
        """Requests that hold a seat now."""
        return self._taken

    @contextmanager
    def seat(self) -> Iterator[None]:
        """Hold one seat. Raises ApiError 429 when there is none."""
        if self._taken >= self._seats:
            raise ApiError(
                f"All {self._seats} places of this server are taken; try again shortly.",
                status=429,
                code="rate_limit_exceeded",
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
