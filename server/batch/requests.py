"""Parses a batch: its items, each merged with the fields common to all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from server.errors import ApiError, shown, shown_value
from server.limits import Limits
from server.request_models.base import unknown_parameter
from server.request_models.field_names import UnknownFields, own_names, unknown_fields
from server.request_models.json_object import parse_json_object
from server.request_models.speech import SpeechBody, parse_speech, replaced_by
from server.settings import Settings

NOT_IN_BATCH = ("stream", "stream_format")
"""Fields of a speech request that a batch does not accept."""
NOT_COMMON = (*NOT_IN_BATCH, "input")
"""Fields of a speech request that a batch does not accept beside ``items``."""

BatchItem = SpeechBody | ApiError
"""A validated item, or the error of an invalid one."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A parsed batch.

    items: in order.
    ignored: the unknown common fields that were ignored.
    """

    items: list[BatchItem]
    ignored: list[str]

    def ignored_fields(self) -> Iterator[str]:
        """Yield the names of all ignored fields."""
        yield from self.ignored
        for item in self.items:
            if isinstance(item, SpeechBody):
                yield from item.ignored


def parse_batch(raw: bytes, settings: Settings) -> Batch:
    """Parse the body of a batch. Raises ApiError for an error in the batch as a whole."""
    fields = own_names(parse_json_object(raw))
    items = _items(fields.pop("items", None), settings.limits.max_batch_items)
    _refuse(name for name in fields if name in NOT_COMMON)
    unknown, ignored = unknown_fields(settings), list[str]()
    common = unknown.drop(SpeechBody, fields, ignored)
    for name in common.keys() - SpeechBody.model_fields.keys():
        raise unknown_parameter(name, SpeechBody.model_fields)
    return Batch([_item(common, item, settings.limits, unknown) for item in items], ignored)


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


def _item(common: dict[str, Any], item: dict[str, Any], limits: Limits, unknown: UnknownFields) -> BatchItem:
    try:
        _refuse(name for name in item if name in NOT_IN_BATCH)
        own = own_names(item)
        replaced = replaced_by(own)
        kept = {name: value for name, value in common.items() if name not in replaced}
        return parse_speech({**kept, **own, "stream": False}, limits, unknown)
    except ApiError as error:
        return error
