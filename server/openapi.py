"""What the API's description cannot find out by itself: bodies that routes check themselves, errors, audio."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


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
        "content": {"audio/wav": _BINARY, "audio/pcm": _BINARY, "text/event-stream": _EVENTS},
    }
}


def body_of(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route whose JSON body is ``model``."""
    schema = model.model_json_schema()
    schema = _inlined(schema, schema.get("$defs", {}))
    schema.pop("$defs", None)
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """``node`` with each reference replaced by what it refers to: OpenAPI keeps its schemas elsewhere."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(value, definitions) for name, value in node.items()}
