"""Request bodies in the API's description, for routes that check their body themselves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route whose JSON body is ``model``."""
    schema = model.model_json_schema()
    schema = _inlined(schema, schema.get("$defs", {}))
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """``node`` with each reference replaced by what it refers to: OpenAPI keeps its schemas elsewhere."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(value, definitions) for name, value in node.items()}
