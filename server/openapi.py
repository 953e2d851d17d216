"""What the API's description cannot find out by itself: bodies that routes check themselves, errors, audio."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from server.audio.encoders import FORMATS


class ErrorFields(BaseModel):
    """What went wrong."""

    message: str
    type: str = Field(description="invalid_request_error, rate_limit_error or server_error")
    param: str | None = Field(description="the request field at fault")
    code: str | None = Field(description="a stable word for programs")


class ErrorBody(BaseModel):
    """The one shape of every error."""

    error: ErrorFields


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request is refused.", "model": ErrorBody},
    "5XX": {"description": "The server failed, or cannot do it now.", "model": ErrorBody},
}
"""For every route. 4XX also stands for the 422 that FastAPI would describe, and this server never sends."""

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_EVENTS = {"schema": {"type": "string", "description": "speech.audio.delta, ..., speech.audio.done"}}
SPEECH_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Speech, by response_format and stream_format.",
        "content": {**{kind.media_type: _BINARY for kind in FORMATS.values()}, "text/event-stream": _EVENTS},
    }
}


_ITEM_RESULT = {
    "type": "object",
    "required": ["index", "status"],
    "properties": {
        "index": {"type": "integer"},
        "status": {"type": "string", "enum": ["success", "error"]},
        "audio_data": {"type": "string", "description": "base64"},
        "media_type": {"type": "string"},
        "sample_rate": {"type": "integer"},
        "finish_reason": {"type": "string"},
        "usage": {"type": "object"},
        "error": ErrorFields.model_json_schema(),
    },
}
_COUNTS = {name: {"type": "integer"} for name in ("total", "succeeded", "failed")}
_BATCH = {
    "type": "object",
    "required": ["id", "object", "results", *_COUNTS],
    "properties": {
        "id": {"type": "string"},
        "object": {"type": "string"},
        "results": {"type": "array", "items": _ITEM_RESULT},
        **_COUNTS,
    },
}
BATCH_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "A result for each item, in order.", "content": {"application/json": {"schema": _BATCH}}}
}


def body_of(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route whose JSON body is ``model``."""
    return json_body(schema_of(model), example)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of ``model``, with no reference in it."""
    schema = model.model_json_schema()
    inlined: dict[str, Any] = _inlined(schema, schema.get("$defs", {}))
    inlined.pop("$defs", None)
    return inlined


def json_body(schema: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route whose JSON body has that schema."""
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def form_of(fields: dict[str, str], required: list[str]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route whose body is a form: an ``audio_sample``, and texts with what they mean."""
    properties: dict[str, Any] = {name: {"type": "string", "description": text} for name, text in fields.items()}
    properties["audio_sample"] = {"type": "string", "format": "binary", "description": "a recording"}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """``node`` with each reference replaced by what it refers to: OpenAPI keeps its schemas elsewhere."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(value, definitions) for name, value in node.items()}
