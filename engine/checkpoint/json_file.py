"""Reads JSON files into dataclasses with pydantic: a missing key or a wrong type is an error, never a default.

A field is ``name: Annotated[type, key("name_in_the_file")]``. Keys of the file that no field reads are ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails, from_json

from engine.checkpoint.checksums import Checksums, unverified
from engine.errors import CheckpointError

Count = Annotated[int, Field(strict=True, ge=1)]
PositiveNumber = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_T = TypeVar("_T")

THIS = "."
"""The key of a field whose own fields are read from the same object as their parent's."""

_ALLOWED = {
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "at least {ge}",
    "int_type": "an integer",
    "less_than_equal": "at most {le:g}",
    "literal_error": "{expected}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_pattern_mismatch": "a lower-case name",
    "string_type": "a string",
    "too_long": "a list of at most {max_length} values",
    "too_short": "a list of at least {min_length} values",
    "tuple_type": "a list",
}
"""What a value must be, by pydantic's error type. The error's context has the numbers."""


class UnsupportedValue(ValueError):
    """Raised by validators for a value that the engine does not support.

    allowed: what the value must be. path: the keys from the validated value to the unsupported one within it.
    """

    def __init__(self, allowed: str, *path: str) -> None:
        super().__init__(allowed)
        self.path = path


def key(name: str) -> Any:
    """Return the annotation of a field that is read from the key ``name``."""
    return Field(validation_alias=name)


def json_object(**supported: object) -> BeforeValidator:
    """Return the annotation of a dataclass. supported: for keys that a file may lack, the only supported value."""

    def check(values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for name, value in supported.items():
            if values.get(name, value) != value:
                raise UnsupportedValue(json.dumps(value), name)
        return values | {THIS: values}

    return BeforeValidator(check)


def limit(name: str) -> AfterValidator:
    """Return the annotation of an integer that ``below(name)`` refers to, in fields that follow it."""

    def remember(value: int, info: ValidationInfo[dict[str, int]]) -> int:
        info.context[name] = value
        return value

    return AfterValidator(remember)


def below(name: str) -> AfterValidator:
    """Return the annotation of an id that must be less than the value of ``limit(name)``."""

    def check(value: int, info: ValidationInfo[dict[str, int]]) -> int:
        size = info.context.get(name)  # None if that value is invalid
        if size is not None and value >= size:
            raise UnsupportedValue(f"in 0..{size - 1}")
        return value

    return AfterValidator(check)


def read_json(file: Path, checksums: Checksums | None = None) -> dict[str, Any]:
    """Return the object in a JSON file, verified against ``checksums`` if given.

    Raises CheckpointError if the file cannot be read, does not match its checksum, or contains no JSON object.
    """
    data = (checksums or unverified(file.parent)).read(file)
    try:
        values = from_json(data)
    except ValueError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{file} must contain a JSON object, found {_shorten(values)}")
    return values


def parse(adapter: TypeAdapter[_T], values: dict[str, Any], file: Path) -> _T:
    """Return ``values``, the content of ``file``, as the adapter's type.

    Raises CheckpointError with the file, the key, what is allowed and what was found.
    """
    try:
        return adapter.validate_python(values, context={})
    except ValidationError as error:
        raise CheckpointError(f"{file}: {_describe(error.errors()[0])}") from None


def _describe(error: ErrorDetails) -> str:
    path, found, context = list(error["loc"]), error["input"], error.get("ctx", {})
    allowed = error["msg"]
    if error["type"] in _ALLOWED:
        allowed = _ALLOWED[error["type"]].format(**context).replace("'", '"')
    elif isinstance(cause := context.get("error"), ValueError):
        allowed = str(cause)
        for each in cause.path if isinstance(cause, UnsupportedValue) else ():
            path, found = [*path, each], found[each]
    name = ".".join(str(part) for part in path if part != THIS)
    if error["type"] == "missing":
        return f"the key {name} is missing"
    return f"{name} must be {allowed}, found {_shorten(found)}"


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
