"""Exception types of the engine. The server maps each to one HTTP status."""

from __future__ import annotations

import json
from typing import Any


class EngineError(Exception):
    """Base class of all errors that the engine reports.

    code: a stable, machine-readable identifier. param: the request field that caused the error, if any.
    """

    code = "engine_failed"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.param = param

    def to_bytes(self) -> bytes:
        """Serialize the error for a FAIL record."""
        fields = {
            "type": type(self).__name__,
            "message": self.message,
            "code": self.code,
            "param": self.param,
        }
        return json.dumps(fields).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> EngineError:
        """Return the error in a FAIL record's payload, with its type. An unknown type becomes EngineFailed."""
        fields: dict[str, Any] = json.loads(payload)
        error_type = _TYPES.get(fields["type"], EngineFailed)
        return error_type(fields["message"], code=fields["code"], param=fields["param"])


class RequestError(EngineError):
    """The request asks for something that this checkpoint or engine cannot do. The caller can correct it."""

    code = "invalid_value"


class CheckpointError(EngineError):
    """A checkpoint folder is incomplete or inconsistent with its own configuration."""

    code = "bad_checkpoint"


class SetupError(CheckpointError):
    """The machine lacks something that the configuration needs. Restarting the engine does not help."""

    code = "bad_setup"


class EngineUnavailable(EngineError):
    """The engine is starting, restarting, overloaded or closed. The same request may succeed later."""

    code = "engine_unavailable"


class EngineFailed(EngineError):
    """The engine failed while it processed this request."""


class PoisonRequest(EngineFailed):
    """Two engines were lost while they processed this request, so it is not tried again."""

    code = "poison_request"


_TYPES: dict[str, type[EngineError]] = {
    each.__name__: each
    for each in (RequestError, CheckpointError, SetupError, EngineUnavailable, EngineFailed, PoisonRequest)
}
