"""The exception for a refused request. Does not import FastAPI, so that the decoder worker can import it cheaply."""

from __future__ import annotations

RETRY_AFTER = 2
"""Default value of the Retry-After header, in seconds."""


class ApiError(Exception):
    """The refusal of a request, with all fields of the error response."""

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
