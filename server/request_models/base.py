"""The base of the request models, and field types that several of them use."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from server.errors import ApiError, code_of, field_message, parameter_of

Name = Annotated[str, Field(max_length=256)]


class RequestModel(BaseModel):
    """Base of the request models: strict types, no unknown fields, no NaN or infinity; null means not given.

    Only the first unknown field is passed on to pydantic, which would create an error for each one.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        known = {name: fields[name] for name in cls.model_fields if fields.get(name) is not None}
        unknown = next((name for name in fields if name not in cls.model_fields), None)
        return known if unknown is None else {**known, unknown: None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add null to the schema of every optional field."""
        schema = handler(core)
        described = handler.resolve_ref_schema(schema)
        fields = described["properties"]
        for name in fields.keys() - set(described.get("required", ())):
            fields[name] = _or_null(fields[name])
        return schema


def _or_null(field: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema ``field`` or null; default, description and title stay at the top level."""
    if {"type": "null"} in field.get("anyOf", ()):
        return field
    top_level: JsonSchemaValue = {name: field[name] for name in ("default", "description", "title") if name in field}
    return {"anyOf": [{name: field[name] for name in field.keys() - top_level}, {"type": "null"}], **top_level}


M = TypeVar("M", bound=RequestModel)


def validated(model: type[M], fields: dict[str, Any]) -> M:
    """Return ``model`` with ``fields``. Raises ApiError that names the first invalid field."""
    try:
        return model.model_validate(fields)
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        param = parameter_of(first["loc"])
        raise ApiError(field_message(param, first), param=param, code=code_of(first["type"])) from None
