"""Settings that need a restart: how they are marked, and how a reload leaves them as they are."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel
from pydantic.config import JsonDict

NEEDS_RESTART: JsonDict = {"needs_restart": True}
"""``json_schema_extra`` of a setting that cannot change while the server runs, or of a group of such settings."""

M = TypeVar("M", bound=BaseModel)


def keep_restart_settings(new: M, old: BaseModel) -> tuple[M, list[str]]:
    """Return ``new`` with the marked settings of ``old``, and the names of those that differ.

    The models must have the same fields. Names of nested settings are dotted, as ``limits.drain_seconds``.
    """
    kept: dict[str, object] = {}
    names: list[str] = []
    for name, field in type(new).model_fields.items():
        value, before = getattr(new, name), getattr(old, name)
        if value == before:
            continue
        if field.json_schema_extra == NEEDS_RESTART:
            kept[name] = before
            names += _changed(name, value, before)
        elif isinstance(value, BaseModel) and isinstance(before, BaseModel):
            kept[name], nested = keep_restart_settings(value, before)
            names += [f"{name}.{each}" for each in nested]
    return new.model_copy(update=kept), names


def _changed(name: str, value: object, before: object) -> list[str]:
    """Return ``name``, or for a group the dotted names of its settings that differ."""
    if not (isinstance(value, BaseModel) and isinstance(before, BaseModel)):
        return [name]
    fields = type(value).model_fields
    return [f"{name}.{each}" for each in fields if getattr(value, each) != getattr(before, each)]
