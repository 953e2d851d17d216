"""The exception for a request that is refused. Free of FastAPI, so that the decoder worker can import it cheaply."""

from __future__ import annotations

RETRY_AFTER = 2
"""Seconds after which a refused client may ask again."""


class ApiError(Exception):
    """A request that is refused, with everything the client is told."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str = "invalid_value",
        retry_after: int = RETRY_AFTER,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.retry_after = retry_after
