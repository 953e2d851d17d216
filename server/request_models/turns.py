"""The turns of several speakers: ``input`` of a speech request as a list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from server.errors import ApiError, shown_value
from server.request_models.base import Name, RequestModel, validated
from server.request_models.spellings import LanguageCode
from server.request_models.voices import VoiceName

TEXT_SCHEMA = {"type": "string", "minLength": 1, "pattern": r"\S"}


class TurnBody(RequestModel):
    """What one speaker says. Fields that are not given are those of the request."""

    input: Annotated[str, Field(min_length=1), WithJsonSchema(TEXT_SCHEMA)] = Field(description="the text to speak")
    voice: VoiceName | None = None
    language: Annotated[Name, LanguageCode] | None = None
    instructions: str | None = None


class TextOrTurns:
    """Annotation for ``input``: its JSON schema also allows a list of turns, which ``parse_speech`` handles."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        turn = handler(TurnBody.__pydantic_core_schema__)
        return {"anyOf": [TEXT_SCHEMA, {"type": "array", "items": turn, "minItems": 1}]}


def parse_turns(values: list[Any], limit: int) -> list[TurnBody]:
    """Validate the items of a list of turns. Raises ApiError that names the field, such as ``input[3].voice``."""
    if not 1 <= len(values) <= limit:
        message = f"input must have 1 to {limit} turns (limits.max_turns), got {len(values)}"
        raise ApiError(message, param="input")
    turns: list[TurnBody] = []
    for index, value in enumerate(values):
        if not isinstance(value, dict):
            message = f'input[{index}] must be an object such as {{"voice": ..., "input": ...}}, got '
            raise ApiError(message + shown_value(value), param=f"input[{index}]", code="invalid_type")
        with errors_of_turn(index):
            turns.append(validated(TurnBody, value))
    return turns


@contextmanager
def errors_of_turn(index: int) -> Iterator[None]:
    """Raise an ApiError about a field of a turn with the place of the field: ``input[3].voice``.

    Errors about other fields of the request, such as the ``ref_audio`` of a turn without a voice, stay as they are.
    """
    try:
        yield
    except ApiError as error:
        name = error.param
        known = name is not None and name.partition(".")[0] in TurnBody.model_fields
        if not known and error.code != "unknown_parameter":
            raise
        place, message = f"input[{index}].{name}", error.message
        message = f"input[{index}].{message}" if message.startswith(f"{name} ") else f"{place}: {message}"
        raise ApiError(
            message, status=error.status, param=place, code=error.code, retry_after=error.retry_after
        ) from None
