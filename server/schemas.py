"""The body of a speech request as it stands on the wire, checked field by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from engine.request import SAMPLE_RATE, SamplingParams, TextLayout
from server.errors import ApiError, code_of, parameter_of
from server.settings import Limits

ResponseFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
StreamFormat = Literal["audio", "sse"]
TaskType = Literal["CustomVoice", "VoiceDesign", "Base"]


def _cold_or_warm(temperature: float) -> float:
    if 0 < temperature < _COOLEST:
        raise PydanticCustomError("temperature", "Input should be 0 (greedy) or at least {least}", {"least": _COOLEST})
    return temperature


_COOLEST = 0.01
"""Below it logits leave the range of float32."""

Temperature = Annotated[float, Field(ge=0, le=10, description="0: greedy"), AfterValidator(_cold_or_warm)]
TopK = Annotated[int, Field(ge=-1, le=2**31 - 1)]
TopP = Annotated[float, Field(gt=0, le=1)]


class _Wire(BaseModel):
    """Strict types, no unknown field, no infinities; null means not given.

    Of unknown fields only the first is looked at: pydantic would make an error for each.
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


Name = Annotated[str, Field(max_length=256)]


class SamplingFields(_Wire):
    """How codes are drawn; what is not given comes from the checkpoint."""

    temperature: Temperature | None = None
    top_k: TopK | None = Field(None, description="0 or -1: no limit")
    top_p: TopP | None = None
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10)] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: TopP | None = None
    max_new_tokens: Annotated[int, Field(ge=2, le=2**31 - 1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None


class VoiceId(_Wire):
    """OpenAI's way to name a stored voice."""

    id: Annotated[Name, Field(min_length=1)]


def _voice_name(value: Any) -> Any:
    return VoiceId.model_validate(value).id if isinstance(value, dict) else value


class SpeechBody(SamplingFields):
    """``POST /v1/audio/speech``."""

    input: Annotated[str, Field(min_length=1, description="the text to speak")]
    model: Name | None = None
    voice: Annotated[Name, BeforeValidator(_voice_name, json_schema_input_type=str | VoiceId)] | None = None
    instructions: str | None = None
    response_format: ResponseFormat = "mp3"
    stream_format: StreamFormat = "audio"
    stream: bool = True
    task_type: TaskType | None = None
    language: Name = "auto"
    ref_audio: str | None = Field(None, description="a data: URL of a recording to clone")
    ref_text: str | None = Field(None, description="what is said in ref_audio")
    x_vector_only_mode: bool = False
    speaker_embedding: Annotated[list[float], Field(min_length=1, max_length=16_384, fail_fast=True)] | None = None
    voices: Annotated[list[dict[str, Any]], Field(max_length=64, fail_fast=True)] | None = None
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    sample_rate: Annotated[int, Field(ge=8_000, le=48_000)] = SAMPLE_RATE
    split: Literal["none", "sentence"] = "none"
    non_streaming_mode: bool | None = Field(None, description="whether all text stands before the first frame")
    initial_codec_chunk_frames: Annotated[int, Field(ge=0)] | None = Field(
        None, description="accepted from clients of other servers; chunks follow the listener here"
    )
    extra_params: SamplingFields = Field(default_factory=SamplingFields)

    @model_validator(mode="after")
    def _blank_transcript_is_none(self) -> Self:
        if self.ref_text is not None and not self.ref_text.strip():
            object.__setattr__(self, "ref_text", None)
        return self

    @property
    def text_layout(self) -> TextLayout | None:
        """Where the text stands in the prompt; None leaves it to the task."""
        if self.non_streaming_mode is None:
            return None
        return "full" if self.non_streaming_mode else "streaming"

    @property
    def sampling(self) -> SamplingParams:
        """Top-level fields, then those of ``extra_params``."""
        given = {**self.extra_params.model_dump(exclude_none=True), **self._own_sampling()}
        for name in ("top_k", "subtalker_top_k"):
            if given.get(name) == -1:
                given[name] = 0
        return SamplingParams(**given)

    def _own_sampling(self) -> dict[str, Any]:
        return self.model_dump(include=set(SamplingFields.model_fields), exclude_none=True)


def parse_speech(fields: dict[str, Any], limits: Limits, ignored: Iterable[str] = ()) -> SpeechBody:
    """The checked body of a request. Raises ApiError naming the first field at fault."""
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
    _check_served(body)
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
    bounds = {
        "input": (body.input, limits.max_input_chars),
        "instructions": (body.instructions, limits.max_instructions_chars),
        "ref_text": (body.ref_text, limits.max_input_chars),
    }
    for name, (text, most) in bounds.items():
        if text is not None and len(text) > most:
            message = f"Invalid '{name}': {len(text)} characters; at most {most} are accepted."
            raise ApiError(message, param=name, code="string_above_max_length")
    if not body.input.strip():
        raise ApiError("Invalid 'input': there is nothing to say.", param="input")


def _check_combinations(body: SpeechBody) -> None:
    if body.ref_audio is not None and body.speaker_embedding is not None:
        raise ApiError("Give 'ref_audio' or 'speaker_embedding', not both.", param="speaker_embedding")
    if body.stream_format == "sse" and not body.stream:
        raise ApiError("'stream_format': 'sse' needs 'stream': true.", param="stream_format")
    if body.ref_text is not None and body.ref_audio is None:
        raise ApiError(
            "'ref_text' is the transcript of a 'ref_audio', which is missing.",
            param="ref_audio",
            code="missing_required_parameter",
        )


def _check_served(body: SpeechBody) -> None:
    refusals = {
        "response_format": (
            body.response_format not in ("wav", "pcm"),
            f"'{body.response_format}' is not available (it is the default when none is named); ask for 'wav' or 'pcm'",
        ),
        "speed": (body.speed != 1.0, "only 1.0 is available"),
        "sample_rate": (body.sample_rate != SAMPLE_RATE, f"only {SAMPLE_RATE} is available"),
        "split": (body.split != "none", "long texts are not split"),
        "voices": (body.voices is not None, "voices are not blended"),
    }
    for name, (refused, reason) in refusals.items():
        if refused:
            raise ApiError(f"Not supported '{name}': {reason}.", param=name, code="not_supported")
