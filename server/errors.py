"""The common error response, and the mapping from exceptions to status codes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from engine.errors import CheckpointError, EngineError, EngineUnavailable, PoisonRequest, RequestError
from server.api_error import RETRY_AFTER as RETRY_AFTER
from server.api_error import ApiError as ApiError

CLIENT_DISCONNECTED = 499

_MAX_NAME = 64
_MAX_PARAM = 160
"""Fits two nested field names."""
_MAX_MESSAGE = 4096
"""Fits a list of 50 voice names of 64 characters."""
_NESTED = frozenset({"extra_params", "voice", "voices"})
_NOT_FOUND_CODES = frozenset({"voice_not_found", "model_not_found"})
_ENGINE_LOST = "engine_lost"
"""Code of the engine's error for requests that its process did not survive. It is restarted, so clients may try again,
and load balancers send the request to another server."""
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
_PYDANTIC_CODES = {
    "missing": "missing_required_parameter",
    "extra_forbidden": "unknown_parameter",
    "string_too_long": "string_above_max_length",
}


class ClientDisconnected(Exception):
    """The client closed its connection, so no response can be sent."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as reported to the client and the log. Truncates the message and param, which may quote the client."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: int = RETRY_AFTER

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shown(self.message, _MAX_MESSAGE))
        if self.param is not None:
            object.__setattr__(self, "param", shown(self.param, _MAX_PARAM))

    def body(self) -> dict[str, Any]:
        """Return ``{"error": {...}}``, the same in responses and in events."""
        fields = {"message": self.message, "type": self._type, "param": self.param, "code": self.code}
        return {"error": fields}

    def response(self) -> JSONResponse:
        """Return the response: with Retry-After for 429 and 503, WWW-Authenticate for 401, and Connection for 408."""
        hints = {}
        if self.status in (429, 503):
            hints["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            hints["WWW-Authenticate"] = "Bearer"
        if self.status == 408:
            hints["Connection"] = "close"
        return JSONResponse(self.body(), self.status, {**self.headers, **hints})

    @property
    def _type(self) -> str:
        if self.status == 429:
            return "rate_limit_error"
        return "server_error" if self.status >= 500 else "invalid_request_error"


def failure_of(error: BaseException) -> Failure:
    """Return the Failure for ``error``. Details of unexpected errors do not reach the client, only the log."""
    match error:
        case ApiError():
            return Failure(error.status, error.message, error.param, error.code, retry_after=error.retry_after)
        case ClientDisconnected():
            return Failure(CLIENT_DISCONNECTED, "the client disconnected", code="client_left")
        case asyncio.CancelledError():
            return Failure(503, "the server is stopping; send the request again later", code="stopped")
        case RequestValidationError():
            return _failure_of_fields(error.errors())
        case HTTPException():
            code = _HTTP_CODES.get(error.status_code)
            return Failure(error.status_code, error.detail, code=code, headers=error.headers or {})
        case EngineError():
            return _failure_of_engine(error)
    return Failure(500, "internal server error; the server's log has the details", code="internal_error")


def _failure_of_engine(error: EngineError) -> Failure:
    match error:
        case PoisonRequest():
            return Failure(500, error.message, code=error.code)
        case RequestError():
            status = 404 if error.code in _NOT_FOUND_CODES else 400
            return Failure(status, error.message, error.param, error.code)
        case EngineUnavailable():
            return Failure(503, error.message, code=error.code)
        case CheckpointError():
            return Failure(503, "the checkpoint cannot be loaded; the server's log says why", code=error.code)
    if error.code == _ENGINE_LOST:
        return Failure(503, "the engine ended while it processed this request; try again", code=error.code)
    return Failure(
        500, "the engine failed while it processed this request; the server's log has the details", code=error.code
    )


def _failure_of_fields(errors: Sequence[Any]) -> Failure:
    error = errors[0]
    param = parameter_of(error["loc"])
    return Failure(400, field_message(param, error), param, code_of(error["type"]))


_SHOULD = re.compile(r"^\w+ should ")
"""How pydantic's messages begin: "Input should be less than or equal to 4"."""
_COUNTED = re.compile(r" after validation, not (.+)$")
"""How pydantic reports the length of a list: "List should have at most 64 items after validation, not 65"."""


def field_message(param: str | None, error: Any) -> str:
    """Return the message for an error of pydantic, such as ``speed must be less than or equal to 4, got 7.5``."""
    name, kind = param or "the request", error["type"]
    if kind == "missing":
        return f"{name} is required"
    if kind == "extra_forbidden":
        return f"unknown parameter '{name}'"
    text, value = error["msg"], error.get("input")
    if _SHOULD.match(text) is None:
        return f"{name} is invalid: {text}"
    text = _SHOULD.sub("must ", text)
    if (counted := _COUNTED.search(text)) is not None:
        return f"{name} {text[: counted.start()]}, got {counted.group(1)}"
    got = f"{len(value)} characters" if kind.startswith("string_too_") else shown_value(value)
    return f"{name} {text.partition(', got ')[0]}, got {got}"


def parameter_of(location: Sequence[int | str]) -> str | None:
    """Return the request field of a pydantic error location: its first name, or two names for a nested field."""
    names = [shown(part) for part in location if isinstance(part, str) and part not in ("body", "query", "path")]
    return ".".join(names[:2] if names and names[0] in _NESTED else names[:1]) or None


def shown(text: str, max_length: int = _MAX_NAME) -> str:
    """Return the first ``max_length`` characters of a client's text, for use in an error or the log."""
    return text if len(text) <= max_length else text[:max_length] + "..."


def shown_value(value: object) -> str:
    """Return a JSON value of a client, for use in an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"'{shown(value)}'"
        case int() if value.bit_length() > 64:
            return f"an integer of {value.bit_length()} bits"
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case dict():
            return "an object"
    return type(value).__name__


def code_of(kind: str) -> str:
    """Return the ``code`` of an error response for a type of pydantic error."""
    if kind in _PYDANTIC_CODES:
        return _PYDANTIC_CODES[kind]
    return "invalid_type" if kind.endswith(("_type", "_parsing")) else "invalid_value"
