"""The one error shape of the wire, and the one place where a failure becomes a status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from engine.errors import CheckpointError, EngineError, EngineUnavailable, RequestError
from server.api_error import RETRY_AFTER as RETRY_AFTER
from server.api_error import ApiError as ApiError

CLIENT_DISCONNECTED = 499

_LONGEST_NAME = 64
_LONGEST_PARAM = 160
"""Two names, one inside the other."""
_LONGEST_MESSAGE = 4096
"""A list of 50 voices of 64 characters fits."""
_NESTED = frozenset({"extra_params", "voice", "voices"})
_NOT_FOUND_CODES = frozenset({"voice_not_found", "model_not_found"})
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
_PYDANTIC_CODES = {
    "missing": "missing_required_parameter",
    "extra_forbidden": "unknown_parameter",
    "string_too_long": "string_above_max_length",
}


class ClientDisconnected(Exception):
    """The client closed its connection; nobody reads an answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as the client sees it, and the log. Text that a client sent is cut here, however it got in."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: int = RETRY_AFTER

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shown(self.message, _LONGEST_MESSAGE))
        if self.param is not None:
            object.__setattr__(self, "param", shown(self.param, _LONGEST_PARAM))

    def body(self) -> dict[str, Any]:
        """``{"error": {...}}``, the same in replies and in events."""
        fields = {"message": self.message, "type": self._type, "param": self.param, "code": self.code}
        return {"error": fields}

    def response(self) -> JSONResponse:
        """The reply; refusals that will pass say when to ask again, and one for want of a key how to bring it."""
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
    """What the client is told of ``error``. Internals of the unexpected stay in the log."""
    match error:
        case ApiError():
            return Failure(error.status, error.message, error.param, error.code, retry_after=error.retry_after)
        case ClientDisconnected():
            return Failure(CLIENT_DISCONNECTED, "The client left.", code="client_left")
        case asyncio.CancelledError():
            return Failure(503, "The server is stopping.", code="stopped")
        case RequestValidationError():
            return _failure_of_fields(error.errors())
        case HTTPException():
            code = _HTTP_CODES.get(error.status_code)
            return Failure(error.status_code, error.detail, code=code, headers=error.headers or {})
        case EngineError():
            return _failure_of_engine(error)
    return Failure(500, "The server failed on this request.", code="internal_error")


def _failure_of_engine(error: EngineError) -> Failure:
    match error:
        case RequestError():
            status = 404 if error.code in _NOT_FOUND_CODES else 400
            return Failure(status, error.message, error.param, error.code)
        case EngineUnavailable():
            return Failure(503, error.message, code=error.code)
        case CheckpointError():
            return Failure(503, "The checkpoint could not be loaded.", code=error.code)
    return Failure(500, "The engine failed while it worked on this request.", code=error.code)


def _failure_of_fields(errors: Sequence[Any]) -> Failure:
    error = errors[0]
    param = parameter_of(error["loc"])
    return Failure(400, f"{param}: {error['msg']}" if param else error["msg"], param, code_of(error["type"]))


def parameter_of(location: Sequence[int | str]) -> str | None:
    """The request field of a pydantic location: the first name, or two where fields are nested."""
    names = [shown(part) for part in location if isinstance(part, str) and part not in ("body", "query", "path")]
    return ".".join(names[:2] if names and names[0] in _NESTED else names[:1]) or None


def shown(text: str, most: int = _LONGEST_NAME) -> str:
    """Return the first ``most`` characters of a client's text, for use in an error or the log."""
    return text if len(text) <= most else text[:most] + "..."


def code_of(kind: str) -> str:
    """The machine-readable word for a kind of pydantic error."""
    if kind in _PYDANTIC_CODES:
        return _PYDANTIC_CODES[kind]
    return "invalid_type" if kind.endswith(("_type", "_parsing")) else "invalid_value"
