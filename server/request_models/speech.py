"""The body of a speech request, validated field by field."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from engine.protocol.request import SAMPLE_RATE, SamplingParams
from engine.protocol.speech_profile import TextLayout
from server.errors import ApiError
from server.limits import Limits
from server.request_models.base import Name, RequestModel, validated
from server.request_models.field_names import REFUSED, UnknownFields, own_names
from server.request_models.spellings import (
    AnyCase,
    Boolean,
    IntegerText,
    LanguageCode,
    ListOf,
    NumberText,
    OneOf,
)
from server.request_models.turns import TextOrTurns, TurnBody, errors_of_turn, parse_turns
from server.request_models.voices import Embedding, VoiceName, VoiceShares, check_shares
from server.text_settings import Respellings

ResponseFormat = Annotated[Literal["mp3", "opus", "aac", "flac", "wav", "pcm"], AnyCase]
StreamFormat = Annotated[Literal["audio", "sse"], AnyCase]
TaskType = Annotated[Literal["CustomVoice", "VoiceDesign", "Base"], AnyCase]
Split = Annotated[Literal["auto", "sentence", "none"], AnyCase]
"""auto: text that is too long for one utterance is split into pieces. sentence: at every sentence. none: never."""

_MIN_TEMPERATURE = 0.01
"""Lowest temperature above 0. Below it, scaled logits overflow float32."""


def _greedy_or_warm(temperature: float) -> float:
    if 0 < temperature < _MIN_TEMPERATURE:
        message = "Input should be 0 (greedy) or at least {least}"
        raise PydanticCustomError("temperature", message, {"least": _MIN_TEMPERATURE})
    return temperature


_TEMPERATURES = {
    "anyOf": [{"type": "number", "const": 0}, {"type": "number", "minimum": _MIN_TEMPERATURE, "maximum": 10}]
}
Temperature = Annotated[
    float,
    Field(ge=0, le=10, description="0: greedy"),
    AfterValidator(_greedy_or_warm),
    WithJsonSchema({**_TEMPERATURES, "description": "0: greedy"}),
    NumberText,
]
TopK = Annotated[int, Field(ge=-1, le=2**31 - 1), IntegerText]
TopP = Annotated[float, Field(gt=0, le=1), NumberText]
SOURCE_FIELDS = ("ref_audio", "speaker_embedding", "voices")
"""The fields with which a request brings its own voice; at most one of them is given."""


class SamplingFields(RequestModel):
    """Sampling parameters of the codes; the checkpoint has the defaults."""

    temperature: Temperature | None = None
    top_k: TopK | None = Field(None, description="0 or -1: no limit")
    top_p: TopP | None = None
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10), NumberText] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: TopP | None = None
    max_new_tokens: Annotated[int, Field(ge=2, le=2**31 - 1), IntegerText] | None = None
    seed: Annotated[int, Field(ge=-1, lt=2**63), IntegerText] | None = Field(None, description="-1: random")

    def given(self) -> dict[str, Any]:
        """Return the parameters that were given, by name."""
        fields = {name: getattr(self, name) for name in SamplingFields.model_fields}
        return {name: value for name, value in fields.items() if value is not None and (name, value) != ("seed", -1)}


class SpeechBody(SamplingFields):
    """``POST /v1/audio/speech``."""

    input: Annotated[str, Field(min_length=1), TextOrTurns] = Field(
        description="the text to speak, or the turns of several speakers"
    )
    model: Name | None = None
    voice: VoiceName | None = None
    instructions: str | None = None
    response_format: ResponseFormat = "mp3"
    stream_format: StreamFormat = "audio"
    stream: Boolean = True
    task_type: TaskType | None = None
    language: Annotated[Name, LanguageCode] = "auto"
    ref_audio: Annotated[str | None, OneOf] = Field(
        None, description="a recording to clone: a data: or http(s) URL, or a file in an allowed folder"
    )
    ref_text: str | None = Field(None, description="transcript of ref_audio")
    x_vector_only_mode: Boolean = False
    speaker_embedding: Embedding | None = None
    voices: VoiceShares | None = Field(None, description="voices to blend")
    speed: Annotated[float, Field(ge=0.25, le=4.0), NumberText] = 1.0
    sample_rate: Annotated[int, Field(ge=8_000, le=48_000), IntegerText] = SAMPLE_RATE
    split: Split = Field(
        "auto",
        description="auto: synthesize text that is too long for one utterance in pieces, as one stream; sentence: "
        "sentence by sentence; none: never split",
    )
    timestamp_granularities: Annotated[list[Literal["word"]], ListOf] = Field(
        default_factory=list,
        max_length=1,
        description="['word']: times of the words, in events of a stream with stream_format sse and of a live session, "
        "in the results of a batch, and in the outcome of the request",
    )
    non_streaming_mode: Boolean | None = Field(
        None, description="true: the whole text precedes the first frame; false: one text token is added to each frame"
    )
    initial_codec_chunk_frames: Annotated[int, Field(ge=0), IntegerText] | None = Field(
        None, description="accepted for compatibility and ignored; the scheduler sizes the chunks"
    )
    normalize: Boolean | None = Field(
        None,
        description="true: read numbers, symbols and abbreviations as words; false: speak the text as it is; default: "
        "as the checkpoint was trained",
    )
    pronunciations: Respellings | None = Field(None, description="word -> respelling")
    extra_params: SamplingFields = Field(default_factory=SamplingFields)
    _turns: tuple[SpeechBody, ...] = PrivateAttr(())
    _ignored: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _blank_transcript_is_none(self) -> Self:
        if self.ref_text is not None and not has_visible_text(self.ref_text):
            object.__setattr__(self, "ref_text", None)
        return self

    @property
    def turns(self) -> tuple[SpeechBody, ...]:
        """The turns of several speakers, each as a request of its own; the request itself if its input is a text."""
        return self._turns or (self,)

    @property
    def has_turns(self) -> bool:
        """Whether ``input`` was a list of turns. ``input`` is then all their texts."""
        return bool(self._turns)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The unknown fields that were ignored, to be reported to the client."""
        return self._ignored

    @property
    def characters(self) -> int:
        """Number of characters to speak."""
        return sum(len(turn.input) for turn in self.turns)

    @property
    def voice_sources(self) -> list[str]:
        """The given fields among ``SOURCE_FIELDS``."""
        return [name for name in SOURCE_FIELDS if getattr(self, name) is not None]

    @property
    def text_layout(self) -> TextLayout | None:
        """How the prompt arranges the text; None uses the default of the checkpoint or of the task."""
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


def parse_speech(fields: dict[str, Any], limits: Limits, unknown: UnknownFields = REFUSED) -> SpeechBody:
    """Validate the body of a speech request. Raises ApiError with the name of the first invalid field.

    unknown: what to do with unknown fields.
    """
    ignored: list[str] = []
    kept = unknown.drop(SpeechBody, own_names(fields), ignored)
    if isinstance(kept.get("extra_params"), dict):
        kept["extra_params"] = unknown.drop(SamplingFields, kept["extra_params"], ignored, "extra_params.")
    given = kept.get("input")
    if isinstance(given, list):
        given = [
            unknown.drop(TurnBody, own_names(turn), ignored, "input.") if isinstance(turn, dict) else turn
            for turn in given
        ]
    turns = parse_turns(given, limits.max_turns) if isinstance(given, list) else []
    if turns:
        kept["input"] = "\n\n".join(turn.input for turn in turns)
    body = validated(SpeechBody, kept)
    body._turns = tuple(_body_of(turn, body) for turn in turns)
    body._ignored = tuple(ignored)
    _check_texts(body, limits)
    _check_combinations(body)
    return body


def _body_of(turn: TurnBody, body: SpeechBody) -> SpeechBody:
    """Return a turn as a request. A voice of its own replaces the voice of the request, named or not."""
    own = {name: value for name in TurnBody.model_fields if (value := getattr(turn, name)) is not None}
    return body.model_copy(update={**dict.fromkeys(replaced_by(own)), **own})


def replaced_by(own: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of a whole request that a voice among the ``own`` fields of a part of it replaces."""
    if not any(own.get(name) not in (None, "") for name in ("voice", *SOURCE_FIELDS)):
        return ()
    transcript = () if own.get("ref_audio") else ("ref_text",)  # recordings may share a transcript
    return ("task_type", *transcript, *SOURCE_FIELDS)


def _check_texts(body: SpeechBody, limits: Limits) -> None:
    splits = body.split != "none"
    _check_count("input", body.characters, _input_limit(limits, long=body.stream and (splits or body.has_turns)))
    _check_instructions(body, limits)
    if body.ref_text is not None:
        check_length("ref_text", body.ref_text, limits.max_input_chars)
    for index, turn in enumerate(body.turns):
        with errors_of_turn(index) if body.has_turns else nullcontext():
            check_length("input", turn.input, _input_limit(limits, long=body.stream and splits))
            _check_instructions(turn, limits)
            if not has_visible_text(turn.input):
                raise ApiError("input must have a visible character, got only white space", param="input")


def _check_instructions(body: SpeechBody, limits: Limits) -> None:
    if body.instructions is not None:
        check_length("instructions", body.instructions, limits.max_instructions_chars)


def _input_limit(limits: Limits, *, long: bool) -> int:
    return max(limits.max_input_chars, limits.max_split_chars) if long else limits.max_input_chars


_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
"""Unicode categories of invisible characters: spaces, line and paragraph separators, controls, zero-width ones."""


def has_visible_text(text: str) -> bool:
    """Return whether any character of ``text`` is visible."""
    return any(unicodedata.category(character) not in _INVISIBLE for character in text)


def check_length(name: str, text: str, limit: int) -> None:
    """Raise ApiError if the field ``name`` has more than ``limit`` characters."""
    _check_count(name, len(text), limit)


def _check_count(name: str, length: int, limit: int) -> None:
    if length > limit:
        message = f"{name} must have at most {limit} characters, got {length}"
        raise ApiError(message, param=name, code="string_above_max_length")


def _check_combinations(body: SpeechBody) -> None:
    sources = body.voice_sources
    if len(sources) > 1:
        message = f"only one of {', '.join(SOURCE_FIELDS)} may be given, got {' and '.join(sources)}"
        raise ApiError(message, param=sources[1])
    check_shares(body.voices or ())
    if body.stream_format == "sse" and not body.stream:
        raise ApiError("stream_format 'sse' requires stream true, got false", param="stream_format")
    if body.ref_text is not None and body.ref_audio is None:
        raise ApiError(
            "ref_text is the transcript of ref_audio, which is missing: add ref_audio, or omit ref_text",
            param="ref_audio",
            code="missing_required_parameter",
        )
