"""What can go wrong in the engine, as types. The server maps each to one HTTP status."""

from __future__ import annotations

import json
from typing import Any


class EngineError(Exception):
    """Base of every failure the engine reports.

    ``code`` is a stable machine-readable word; ``param`` names the request field at fault, if any.
    """

    code = "engine_failed"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.param = param

    def to_bytes(self) -> bytes:
        """The error as it travels in a FAIL record."""
        fields = {
            "type": type(self).__name__,
            "message": self.message,
            "code": self.code,
            "param": self.param,
        }
        return json.dumps(fields).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> EngineError:
        """The typed error of a FAIL record's payload."""
        fields: dict[str, Any] = json.loads(payload)
        kind = _KINDS.get(fields["type"], EngineFailed)
        return kind(fields["message"], code=fields["code"], param=fields["param"])


class RequestError(EngineError):
    """The request asks for something this checkpoint or engine cannot do; the caller can mend it."""

    code = "invalid_value"


class CheckpointError(EngineError):
    """A checkpoint folder is missing something or contradicts its own configuration."""

    code = "bad_checkpoint"


class SetupError(CheckpointError):
    """The machine lacks what the configuration asks for; starting again does not help here either."""

    code = "bad_setup"


class EngineUnavailable(EngineError):
    """The engine is starting, restarting or closing: the same request may work later."""

    code = "engine_unavailable"


class EngineFailed(EngineError):
    """The engine broke while it worked on this request."""


_KINDS: dict[str, type[EngineError]] = {
    kind.__name__: kind for kind in (RequestError, CheckpointError, SetupError, EngineUnavailable, EngineFailed)
}
