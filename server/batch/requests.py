"""Parses a batch: its items, each merged with the fields common to all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from server.api.json_body import json_object
from server.api.openapi import schema_of
from server.api.requests import SpeechBody, parse_speech
from server.errors import ApiError, shown
from server.settings import Settings

_NOT_IN_BATCH = ("stream", "stream_format")
_NOT_SHARED = (*_NOT_IN_BATCH, "input")

Asked = SpeechBody | ApiError
"""A validated item, or the error of an invalid one."""


def parse_batch(raw: bytes, settings: Settings) -> list[Asked]:
    """Return the items in order. Raises ApiError for an error in the batch as a whole."""
    shared = json_object(raw)
    items = _items(shared.pop("items", None), settings.limits.max_batch_items)
    known = {*SpeechBody.model_fields, *settings.ignored_fields} - {*_NOT_SHARED}
    _refuse(name for name in shared if name not in known)
    return [_asked(shared, item, settings) for item in items]


def _items(given: object, most: int) -> list[dict[str, Any]]:
    if given is None:
        raise ApiError("Missing required parameter: 'items'.", param="items", code="missing_required_parameter")
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise ApiError("Invalid 'items': Input should be a list of objects.", param="items", code="invalid_type")
    if not 1 <= len(given) <= most:
        raise ApiError(f"Invalid 'items': {len(given)} of them; 1 to {most} are accepted.", param="items")
    return given


def _refuse(unknown: Iterable[str]) -> None:
    for name in unknown:
        raise ApiError(f"Unknown parameter: '{shown(name)}'.", param=shown(name), code="unknown_parameter")


def _asked(shared: dict[str, object], item: dict[str, Any], settings: Settings) -> Asked:
    try:
        _refuse(name for name in item if name in _NOT_IN_BATCH)
        fields = {**shared, **item, "stream": False}
        return parse_speech(fields, settings.limits, settings.ignored_fields)
    except ApiError as refusal:
        return refusal


def batch_schema() -> dict[str, Any]:
    """Return the JSON schema of a batch's body, derived from the schema of a speech request."""
    speech = schema_of(SpeechBody)["properties"]
    fields = {name: field for name, field in speech.items() if name not in _NOT_IN_BATCH}
    item = {"type": "object", "properties": fields, "required": ["input"], "additionalProperties": False}
    shared = {name: field for name, field in fields.items() if name not in _NOT_SHARED}
    items = {"type": "array", "items": item, "minItems": 1}
    return {
        "type": "object",
        "properties": {"items": items, **shared},
        "required": ["items"],
        "additionalProperties": False,
    }
