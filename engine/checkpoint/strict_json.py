"""Strict reader of a checkpoint's JSON files: a missing key or a wrong type is an error, never a default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.checkpoint.checksums import Checksums, unverified
from engine.errors import CheckpointError

_ABSENT = object()


class Keys:
    """One JSON object of a checkpoint file. Every failure raises CheckpointError with the file and the key."""

    def __init__(self, values: dict[str, Any], file: Path, path: str = "") -> None:
        self.values = values
        self.file = file
        self._path = path

    def has(self, key: str) -> bool:
        """Return whether the key is present and not null."""
        return self.values.get(key) is not None

    def integer(self, key: str, *, minimum: int = 1, below: int | None = None) -> int:
        """Return an integer that is at least ``minimum`` and, if given, less than ``below``."""
        value = self._present(key)
        if not is_integer(value):
            raise self.wrong(key, "an integer", value)
        if value < minimum or (below is not None and value >= below):
            limits = f"at least {minimum}" if below is None else f"in {minimum}..{below - 1}"
            raise self.wrong(key, limits, value)
        return int(value)

    def number(self, key: str) -> float:
        """Return a number greater than zero."""
        value = self._present(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self.wrong(key, "a number greater than zero", value)
        return float(value)

    def flag(self, key: str) -> bool:
        """Return a boolean."""
        value = self._present(key)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._present(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a string", value)
        return value

    def integers(self, key: str, *, length: int | None = None) -> tuple[int, ...]:
        """Return a non-empty list of positive integers, of exactly ``length`` entries if given."""
        value = self._present(key)
        wanted = "a list of positive integers" if length is None else f"a list of {length} positive integers"
        if not isinstance(value, list) or not value or not all(is_integer(n) and n > 0 for n in value):
            raise self.wrong(key, wanted, value)
        if length is not None and len(value) != length:
            raise self.wrong(key, wanted, value)
        return tuple(value)

    def object(self, key: str) -> Keys:
        """Return a nested object."""
        value = self._present(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "an object", value)
        return Keys(value, self.file, self.name(key))

    def expect(self, key: str, wanted: Any) -> None:
        """Raise CheckpointError if the key is present and is not ``wanted``, the only value that the models support."""
        value = self.values.get(key, _ABSENT)
        if value is not _ABSENT and value != wanted:
            raise self.wrong(key, json.dumps(wanted), value)

    def name(self, key: str) -> str:
        """Return the key with the path of its object."""
        return f"{self._path}.{key}" if self._path else key

    def wrong(self, key: str, wanted: str, found: Any) -> CheckpointError:
        """Return the error for a key with an invalid value."""
        shown = json.dumps(found, ensure_ascii=False, default=str)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return CheckpointError(f"{self.file}: {self.name(key)} must be {wanted}, found {shown}")

    def _present(self, key: str) -> Any:
        value = self.values.get(key, _ABSENT)
        if value is _ABSENT:
            raise CheckpointError(f"{self.file}: the key {self.name(key)} is missing")
        return value


def is_integer(value: Any) -> bool:
    """Return whether a JSON value is an integer. JSON's true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def read_json(file: Path, checksums: Checksums | None = None) -> Keys:
    """Return the object in a JSON file, verified against ``checksums`` if given.

    Raises CheckpointError if the file cannot be read, does not match its checksum, or contains no JSON object.
    """
    data = (checksums or unverified(file.parent)).read(file)
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return Keys(values, file)
