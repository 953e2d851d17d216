"""The parts of the OpenAPI description that FastAPI cannot derive, and the Allow header of 405 responses."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.routing import Match

from server.api.responses import BatchResults, ErrorBody
from server.audio.encoders import FORMATS
from server.http.keys import OPEN_PATHS

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def allowed_methods(request: Request) -> str:
    """Return the ``Allow`` header of a 405 response to ``request``."""

    def answers(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return ", ".join(filter(answers, _METHODS))


Responses = dict[int | str, dict[str, Any]]

_DESCRIPTIONS = {
    400: "A parameter is invalid, missing, unknown or not supported.",
    401: "The request has no valid API key.",
    403: "Without API keys: the Host header is not a name of this server, or another site's page sent the request.",
    404: "The resource does not exist.",
    408: "The request did not arrive in time, or was ended because its client was too slow.",
    409: "The name is in use or reserved, or a limit is reached.",
    413: "The body is too large, or has too many values.",
    415: "The Content-Type is not supported, or the body is compressed.",
    429: "The queue is full, or this client's share of it.",
    500: "Internal error.",
    503: "The engine is not ready, or the server is stopping or out of memory for request bodies.",
    504: "No audio was ready in time.",
    507: "The upload cannot be stored temporarily.",
}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait before the next attempt.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
BODY_ERRORS = (400, 408, 413, 415)
"""Error statuses of every route that accepts a body."""


def errors(*statuses: int) -> Responses:
    """Return the ``responses`` of a route that may fail with ``statuses``, all in the common error format."""
    described: Responses = {}
    for status in statuses:
        described[status] = {"description": _DESCRIPTIONS[status], "model": ErrorBody}
        if status in (429, 503):
            described[status]["headers"] = _RETRY_AFTER
    return described


VOICE_NOT_OWNED: Responses = {
    403: {
        "description": "With several API keys: another key, or none, stored this shared voice. " + _DESCRIPTIONS[403],
        "model": ErrorBody,
    }
}
"""The 403 of the route that deletes a voice."""

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_KINDS = ("speech.audio.delta", "speech.audio.done", "error")
_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": list(_KINDS)},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_EVENTS = {"itemSchema": _EVENT}
_AUDIO_HEADERS = {
    "X-Sample-Rate": {"description": "Hz", "schema": {"type": "integer"}},
    "X-Channels": {"schema": {"type": "integer", "enum": [1]}},
    "X-Finish-Reason": {
        "description": "Sent with a whole body; a stream sends it as a trailer to clients that accept trailers.",
        "schema": {"type": "string", "enum": ["stop", "length"]},
    },
}
SPEECH_RESPONSE: Responses = {
    200: {
        "description": "Speech, in the requested response_format and stream_format.",
        "headers": _AUDIO_HEADERS,
        "content": {**{kind.media_type: _BINARY for kind in FORMATS.values()}, "text/event-stream": _EVENTS},
    }
}
BATCH_RESPONSE: Responses = {200: {"description": "One result per item, in order.", "model": BatchResults}}


class DescribedApp(FastAPI):
    """An application whose OpenAPI description covers API keys, and omits FastAPI's 422, which it never sends."""

    has_keys = False

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI description; it is generated once."""
        if self.openapi_schema is None:
            schema = super().openapi()
            for path, operations in schema["paths"].items():
                for operation in operations.values():
                    operation["responses"].pop("422", None)
                    if self.has_keys and operation["responses"].get("403", {}).get("description") == _DESCRIPTIONS[403]:
                        operation["responses"].pop("403")
                    if not self.has_keys or path in OPEN_PATHS:
                        operation["responses"].pop("401", None)
                    else:
                        operation["security"] = [{"key": []}]
            for unused in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(unused, None)
            if self.has_keys:
                schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        assert self.openapi_schema is not None
        return self.openapi_schema


def body_of(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a route whose JSON body is ``model``."""
    return json_body(schema_of(model), example)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of ``model`` with all ``$ref`` inlined."""
    schema = model.model_json_schema()
    inlined: dict[str, Any] = _inlined(schema, schema.get("$defs", {}))
    inlined.pop("$defs", None)
    return inlined


def json_body(schema: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a route whose JSON body has this schema."""
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def form_of(fields: dict[str, str], required: list[str]) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a route whose body is a form with an ``audio_sample`` and text fields.

    fields: the description of each text field, by name.
    """
    properties: dict[str, Any] = {name: {"type": "string", "description": text} for name, text in fields.items()}
    properties["audio_sample"] = {"type": "string", "format": "binary", "description": "a recording of the voice"}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """Return ``node`` with each ``$ref`` replaced by its definition: OpenAPI has no ``$defs`` at these paths."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(value, definitions) for name, value in node.items()}
