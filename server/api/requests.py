"""Request models: the body of a speech request, validated field by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from engine.protocol.request import SAMPLE_RATE, SamplingParams, TextLayout
from server.errors import ApiError, code_of, parameter_of
from server.settings import Limits
from server.synthesis.visible_text import has_visible_text
from server.voices.store import NAME as VOICE_NAME

ResponseFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
StreamFormat = Literal["audio", "sse"]
TaskType = Literal["CustomVoice", "VoiceDesign", "Base"]


def _cold_or_warm(temperature: float) -> float:
    if 0 < temperature < _COOLEST:
        raise PydanticCustomError("temperature", "Input should be 0 (greedy) or at least {least}", {"least": _COOLEST})
    return temperature


_COOLEST = 0.01
"""Lowest temperature above 0. Below it, scaled logits overflow float32."""

_TEMPERATURES = {"anyOf": [{"type": "number", "const": 0}, {"type": "number", "minimum": _COOLEST, "maximum": 10}]}
Temperature = Annotated[
    float,
    Field(ge=0, le=10, description="0: greedy"),
    AfterValidator(_cold_or_warm),
    WithJsonSchema({**_TEMPERATURES, "description": "0: greedy"}),
]
TopK = Annotated[int, Field(ge=-1, le=2**31 - 1)]
TopP = Annotated[float, Field(gt=0, le=1)]


class _Wire(BaseModel):
    """Base of the request models: strict types, no unknown fields, no NaN or infinity; null means not given.

    Only the first unknown field is passed on to pydantic, which would create an error for each one.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _given(cls, fields: Any) -> Any:
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
    told: JsonSchemaValue = {name: field[name] for name in ("default", "description", "title") if name in field}
    return {"anyOf": [{name: field[name] for name in field.keys() - told}, {"type": "null"}], **told}


Name = Annotated[str, Field(max_length=256)]


class SamplingFields(_Wire):
    """Sampling parameters of the codes; the checkpoint has the defaults."""

    temperature: Temperature | None = None
    top_k: TopK | None = Field(None, description="0 or -1: no limit")
    top_p: TopP | None = None
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10)] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: TopP | None = None
    max_new_tokens: Annotated[int, Field(ge=2, le=2**31 - 1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    def given(self) -> dict[str, Any]:
        """Return the parameters that were given, by name."""
        fields = {name: getattr(self, name) for name in SamplingFields.model_fields}
        return {name: value for name, value in fields.items() if value is not None}


class VoiceId(_Wire):
    """A stored voice, in OpenAI's format."""

    id: Annotated[Name, Field(min_length=1)]


def _voice_name(value: Any) -> Any:
    return VoiceId.model_validate(value).id if isinstance(value, dict) else value


VoiceName = Annotated[Name, BeforeValidator(_voice_name, json_schema_input_type=Name | VoiceId)]
Embedding = Annotated[list[float], Field(min_length=1, max_length=16_384, fail_fast=True)]


class VoiceShare(_Wire):
    """One voice of a blend. Only the ratio of the weights matters."""

    voice: VoiceName | None = None
    speaker_embedding: Embedding | None = None
    weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0


VoiceShares = Annotated[list[VoiceShare], Field(min_length=1, max_length=64, fail_fast=True)]


class BlendBody(_Wire):
    """``POST /v1/audio/voices/blend``."""

    voices: VoiceShares
    name: Name | None = Field(
        None,
        description="stores the blend; without it its embedding is the answer",
        json_schema_extra={"pattern": f"^{VOICE_NAME}$"},
    )
    consent: Name | None = None
    shared: bool | None = Field(None, description="with several keys: store it for all of them, not for this key alone")


class SpeechBody(SamplingFields):
    """``POST /v1/audio/speech``."""

    input: Annotated[str, Field(min_length=1, description="the text to speak", json_schema_extra={"pattern": r"\S"})]
    model: Name | None = None
    voice: VoiceName | None = None
    instructions: str | None = None
    response_format: ResponseFormat = "mp3"
    stream_format: StreamFormat = "audio"
    stream: bool = True
    task_type: TaskType | None = None
    language: Name = "auto"
    ref_audio: str | None = Field(
        None, description="a recording to clone: a data: or http(s) URL, or a file in an allowed folder"
    )
    ref_text: str | None = Field(None, description="what is said in ref_audio")
    x_vector_only_mode: bool = False
    speaker_embedding: Embedding | None = None
    voices: VoiceShares | None = Field(None, description="voices to speak between")
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    sample_rate: Annotated[int, Field(ge=8_000, le=48_000)] = SAMPLE_RATE
    split: Literal["none", "sentence"] = Field("none", description="long text: sentence by sentence, as one stream")
    non_streaming_mode: bool | None = Field(None, description="whether all text stands before the first frame")
    initial_codec_chunk_frames: Annotated[int, Field(ge=0)] | None = Field(
        None, description="accepted from clients of other servers; chunks follow the listener here"
    )
    extra_params: SamplingFields = Field(default_factory=SamplingFields)

    @model_validator(mode="after")
    def _blank_transcript_is_none(self) -> Self:
        if self.ref_text is not None and not has_visible_text(self.ref_text):
            object.__setattr__(self, "ref_text", None)
        return self

    @property
    def text_layout(self) -> TextLayout | None:
        """How the prompt arranges the text; None uses the default of the task."""
        if self.non_streaming_mode is None:
            return None
        return "full" if self.non_streaming_mode else "streaming"

    @property
    def sampling(self) -> SamplingParams:
        """The sampling parameters. Top-level fields take precedence over those of ``extra_params``."""
        given = {**self.extra_params.given(), **self.given()}
        for name in ("top_k", "subtalker_top_k"):
            if given.get(name) == -1:
                given[name] = 0
        return SamplingParams(**given)


def parse_speech(fields: dict[str, Any], limits: Limits, ignored: Iterable[str] = ()) -> SpeechBody:
    """Validate the body of a speech request. Raises ApiError with the name of the first invalid field."""
    dropped = set(ignored)
    kept = {name: value for name, value in fields.items() if name not in dropped}
    if isinstance(kept.get("extra_params"), dict):
        kept["extra_params"] = {k: v for k, v in kept["extra_params"].items() if k not in dropped}
    try:
        body = SpeechBody.model_validate(kept)
    except ValidationError as error:
        raise _refusal(error) from None
    _check_texts(body, limits)
    _check_combinations(body)
    return body


def parse_blend(fields: dict[str, Any]) -> BlendBody:
    """Validate the body of a blend request. Raises ApiError with the name of the first invalid field."""
    try:
        body = BlendBody.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error) from None
    _check_shares(body.voices)
    return body


def _refusal(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_input=False)[0]
    param, code = parameter_of(first["loc"]), code_of(first["type"])
    if code == "unknown_parameter":
        message = f"Unknown parameter: '{param}'."
    elif code == "missing_required_parameter":
        message = f"Missing required parameter: '{param}'."
    else:
        message = f"Invalid '{param}': {first['msg']}."
    return ApiError(message, param=param, code=code)


def _check_texts(body: SpeechBody, limits: Limits) -> None:
    long = body.split != "none" and body.stream
    bounds = {
        "input": (body.input, limits.max_split_chars if long else limits.max_input_chars),
        "instructions": (body.instructions, limits.max_instructions_chars),
        "ref_text": (body.ref_text, limits.max_input_chars),
    }
    for name, (text, most) in bounds.items():
        if text is not None and len(text) > most:
            message = f"Invalid '{name}': {len(text)} characters; at most {most} are accepted."
            raise ApiError(message, param=name, code="string_above_max_length")
    if not has_visible_text(body.input):
        raise ApiError("Invalid 'input': there is nothing to say.", param="input")


def _check_shares(shares: Iterable[VoiceShare]) -> None:
    """Raise ApiError unless each share has exactly one of ``voice`` and ``speaker_embedding``."""
    for share in shares:
        if (share.voice is None) == (share.speaker_embedding is None):
            raise ApiError("Each of 'voices' is a 'voice' or a 'speaker_embedding'.", param="voices")


def _check_combinations(body: SpeechBody) -> None:
    brought = [name for name in ("ref_audio", "speaker_embedding", "voices") if getattr(body, name) is not None]
    if len(brought) > 1:
        raise ApiError(f"Give '{brought[0]}' or '{brought[1]}', not both.", param=brought[1])
    _check_shares(body.voices or ())
    if body.stream_format == "sse" and not body.stream:
        raise ApiError("'stream_format': 'sse' needs 'stream': true.", param="stream_format")
    if body.ref_text is not None and body.ref_audio is None:
        raise ApiError(
            "'ref_text' is the transcript of a 'ref_audio', which is missing.",
            param="ref_audio",
            code="missing_required_parameter",
        )
