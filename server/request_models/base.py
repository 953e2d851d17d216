"""The base of the request models, and field types that several of them use."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from server.errors import ApiError, code_of, field_message, parameter_of, shown

Name = Annotated[str, Field(max_length=256)]


class RequestModel(BaseModel):
    """Base of the request models: no unknown fields, no NaN or infinity; null and "" mean not given.

    Types are strict, except for the spellings that ``server.request_models.spellings`` accepts. An empty string in a
    required field stays, so that the error says what is wrong with it. Only the first unknown field is passed on to
    pydantic, which would create an error for each one.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _given_fields(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        known = {
            name: fields[name]
            for name, field in cls.model_fields.items()
            if fields.get(name) not in ((None,) if field.is_required() else (None, ""))
        }
        unknown = next((name for name in fields if name not in cls.model_fields), None)
        return known if unknown is None else {**known, unknown: None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add null and the empty string to the schema of every optional field."""
        schema = handler(core)
        described = handler.resolve_ref_schema(schema)
        fields = described["properties"]
        for name in fields.keys() - set(described.get("required", ())):
            fields[name] = _or_nothing(fields[name])
        return schema


_NOTHING: list[JsonSchemaValue] = [{"type": "null"}, {"const": "", "type": "string"}]


def _or_nothing(field: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema ``field``, null or ""; default, description and title stay at the top level."""
    top_level: JsonSchemaValue = {name: field[name] for name in ("default", "description", "title") if name in field}
    described = {name: field[name] for name in field.keys() - top_level}
    options = described.pop("anyOf") if described.keys() == {"anyOf"} else [described]
    return {"anyOf": [*(option for option in options if option not in _NOTHING), *_NOTHING], **top_level}


def unknown_parameter(name: str, known: Iterable[str]) -> ApiError:
    """Return the error for a field that is not one of ``known``. It suggests the known field with a similar name."""
    name = shown(name)
    similar = get_close_matches(name.rpartition(".")[2].lower(), known, n=1)
    hint = f"did you mean '{similar[0]}'?" if similar else "omit it, or let the server ignore it (unknown_fields)"
    return ApiError(f"unknown parameter '{name}'; {hint}", param=name, code="unknown_parameter")


M = TypeVar("M", bound=RequestModel)


def validated(model: type[M], fields: dict[str, Any]) -> M:
    """Return ``model`` with ``fields``. Raises ApiError that names the first invalid field."""
    try:
        return model.model_validate(fields)
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        param = parameter_of(first["loc"])
        if first["type"] == "extra_forbidden":
            raise unknown_parameter(param or "", model.model_fields) from None
        raise ApiError(field_message(param, first), param=param, code=code_of(first["type"])) from None
