"""Voices in requests: by name, as an embedding, or as a weighted blend of several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from server.errors import ApiError
from server.request_models.base import Name, RequestModel, validated
from server.request_models.spellings import Boolean, NumberText


class VoiceId(RequestModel):
    """A stored voice, in OpenAI's format."""

    id: Annotated[Name, Field(min_length=1)]


def _name_or_id(value: Any) -> Any:
    return VoiceId.model_validate(value).id if isinstance(value, dict) else value


VoiceName = Annotated[Name, BeforeValidator(_name_or_id, json_schema_input_type=Name | VoiceId)]
Embedding = Annotated[list[float], Field(min_length=1, max_length=16_384, fail_fast=True)]


class VoiceShare(RequestModel):
    """One voice of a blend. Only the ratio of the weights matters."""

    voice: VoiceName | None = None
    speaker_embedding: Embedding | None = None
    weight: Annotated[float, Field(ge=0, le=1e6), NumberText] = 1.0


VoiceShares = Annotated[list[VoiceShare], Field(min_length=1, max_length=64, fail_fast=True)]


class BlendBody(RequestModel):
    """``POST /v1/audio/voices/blend``."""

    voices: VoiceShares
    name: Name | None = Field(
        None,
        description="stores the blend under this name; without a name the response is its embedding",
    )
    model: Name | None = Field(None, description="the model whose voices are blended; default: the first that clones")
    consent: Name | None = None
    shared: Boolean | None = Field(
        None, description="with several API keys: true stores the voice for all keys, false (default) for this key only"
    )


def parse_blend(fields: dict[str, Any]) -> BlendBody:
    """Validate the body of a blend request. Raises ApiError with the name of the first invalid field."""
    body = validated(BlendBody, fields)
    check_shares(body.voices)
    return body


def check_shares(shares: Iterable[VoiceShare]) -> None:
    """Raise ApiError unless each share has exactly one of ``voice`` and ``speaker_embedding``."""
    for share in shares:
        if (share.voice is None) == (share.speaker_embedding is None):
            given = "neither" if share.voice is None else "both"
            message = f"each item of voices must have either voice or speaker_embedding, got {given}"
            raise ApiError(message, param="voices")
