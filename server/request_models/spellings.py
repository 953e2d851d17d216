"""Spellings of values that clients send and that cannot be misunderstood: "1.0", "true", "MP3", "en-US"."""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_NUMBER = r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?"
_NUMBER_TEXT = re.compile(_NUMBER)
_BOOLEANS = {"true": True, "false": False}
_LANGUAGE_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)
_LANGUAGES = {
    code: name
    for name, codes in {
        "chinese": "zh zho cmn",
        "english": "en eng",
        "french": "fr fra",
        "german": "de deu",
        "italian": "it ita",
        "japanese": "ja jpn",
        "korean": "ko kor",
        "portuguese": "pt por",
        "russian": "ru rus",
        "spanish": "es spa",
    }.items()
    for code in codes.split()
}
"""The languages of Qwen3-TTS by their ISO 639 codes."""


class _NumberText:
    """Annotation of a number: it may also be written as a string. It comes after the bounds of the number."""

    def __init__(self, *, integer: bool = False) -> None:
        self._integer = integer

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(core), {"type": "string", "pattern": f"^{_NUMBER}$"}]}

    def _read(self, value: Any) -> Any:
        """Return the number that ``value`` spells, or ``value`` itself, for pydantic to refuse."""
        if isinstance(value, str) and _NUMBER_TEXT.fullmatch(value.strip()):
            value = float(value) if "." in value or not self._integer else int(value)
        if self._integer and isinstance(value, float) and value.is_integer():
            return int(value)
        return value


NumberText = _NumberText()
IntegerText = _NumberText(integer=True)


def boolean(value: Any) -> Any:
    """Return the boolean that ``value`` spells, or ``value`` itself."""
    return _BOOLEANS.get(value.strip().lower(), value) if isinstance(value, str) else value


Boolean = Annotated[bool, BeforeValidator(boolean)]


class _AnyCase:
    """Annotation of a ``Literal`` of strings: each may be written in any case of letters."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        values = {value.lower(): value for value in get_args(source)}

        def read(value: Any) -> Any:
            return values.get(value.strip().lower(), value) if isinstance(value, str) else value

        return core_schema.no_info_before_validator_function(read, handler(source))


AnyCase = _AnyCase()


def _language_name(value: Any) -> Any:
    """Return the name of the language that a code such as "en" or "pt-BR" stands for; other values as they are."""
    if not isinstance(value, str) or (tag := _LANGUAGE_TAG.fullmatch(value.strip())) is None:
        return value
    return _LANGUAGES.get(tag.group(1).lower(), value)


LanguageCode = BeforeValidator(_language_name)
"""Annotation of a language: it may also be an ISO 639 code, with or without a region."""


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value


OneOf = BeforeValidator(_one)
"""Annotation of a string that may also be in a list of its own."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


ListOf = BeforeValidator(_as_list)
"""Annotation of a list of strings that may also be one string."""
