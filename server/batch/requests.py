"""Parses a batch: its items, each merged with the fields common to all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from server.errors import ApiError, shown, shown_value
from server.request_models.json_object import parse_json_object
from server.request_models.speech import SpeechBody, parse_speech
from server.settings import Settings

NOT_IN_BATCH = ("stream", "stream_format")
"""Fields of a speech request that a batch does not accept."""
NOT_COMMON = (*NOT_IN_BATCH, "input")
"""Fields of a speech request that a batch does not accept beside ``items``."""

BatchItem = SpeechBody | ApiError
"""A validated item, or the error of an invalid one."""


def parse_batch(raw: bytes, settings: Settings) -> list[BatchItem]:
    """Return the items in order. Raises ApiError for an error in the batch as a whole."""
    common = parse_json_object(raw)
    items = _items(common.pop("items", None), settings.limits.max_batch_items)
    known = {*SpeechBody.model_fields, *settings.ignored_fields} - {*NOT_COMMON}
    _refuse(name for name in common if name not in known)
    return [_item(common, item, settings) for item in items]


def _items(value: object, limit: int) -> list[dict[str, Any]]:
    if value is None:
        raise ApiError("items is required", param="items", code="missing_required_parameter")
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        wrong = next(item for item in value if not isinstance(item, dict)) if isinstance(value, list) else value
        within = " in the list" if isinstance(value, list) else ""
        message = f"items must be a list of objects, got {shown_value(wrong)}{within}"
        raise ApiError(message, param="items", code="invalid_type")
    if not 1 <= len(value) <= limit:
        message = f"items must have 1 to {limit} items (limits.max_batch_items), got {len(value)}"
        raise ApiError(message, param="items")
    return value


def _refuse(unknown: Iterable[str]) -> None:
    for name in unknown:
        raise ApiError(f"unknown parameter '{shown(name)}'", param=shown(name), code="unknown_parameter")


def _item(common: dict[str, object], item: dict[str, Any], settings: Settings) -> BatchItem:
    try:
        _refuse(name for name in item if name in NOT_IN_BATCH)
        fields = {**common, **item, "stream": False}
        return parse_speech(fields, settings.limits, settings.ignored_fields)
    except ApiError as error:
        return error
