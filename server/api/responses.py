"""Response models of the JSON endpoints; the OpenAPI description is generated from them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _ResponseModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorFields(_ResponseModel):
    """The error."""

    message: str
    type: str = Field(description="invalid_request_error, rate_limit_error or server_error")
    param: str | None = Field(description="the request field that caused the error")
    code: str | None = Field(description="a stable, machine-readable identifier")


class ErrorBody(_ResponseModel):
    """The body of every error response."""

    error: ErrorFields


class Named(_ResponseModel):
    """A voice or a model by its id, as clients of other speech servers expect it."""

    id: str
    name: str


class ModelCard(_ResponseModel):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task_types: tuple[Literal["CustomVoice", "VoiceDesign", "Base"], ...]
    languages: tuple[str, ...]
    speakers: tuple[str, ...]
    task: Literal["text-to-speech"]
    voices: list[Named] = Field(description="the built-in speakers, for clients that look for voices here")
    embedding_width: int | None = Field(description="width of a speaker embedding; null if the model accepts none")
    in_context: bool = Field(description="whether the model clones in context, with ref_text")
    sample_rate: int
    trained: bool
    description: str | None
    weights: Literal["exact", "int8", "int4"] | None = Field(
        description="format of the talker's weights, see `engine.talker.weights`; null on a GPU"
    )
    real_time_factor: float | None = Field(
        description="seconds that the engine is expected to take for a second of speech, for one utterance at a time; "
        "measured at startup; null on a GPU"
    )


class ModelList(_ResponseModel):
    """The list of served models."""

    object: Literal["list"]
    data: list[ModelCard]


class AudioModelList(_ResponseModel):
    """The names of the served models."""

    models: list[Named]


class BuiltInVoice(_ResponseModel):
    """A built-in speaker of the checkpoint."""

    id: str
    object: Literal["audio.voice"]
    name: str
    created_at: int
    type: Literal["built_in"]
    models: list[str] = Field(description="names of the models that have the speaker")


class StoredVoiceCard(_ResponseModel):
    """A stored voice."""

    id: str
    object: Literal["audio.voice"]
    name: str
    created_at: int
    type: Literal["audio_sample", "speaker_embedding", "blend"]
    model: str = Field(description="the model that the voice was created with")
    embedding_width: int
    compatible: bool = Field(description="whether the model that was asked for, or the default one, can use the voice")
    models: list[str] = Field(description="names of the models that can use the voice")
    in_context: bool
    ref_text: str | None
    consent: str | None
    shared: bool = Field(description="true: every API key may use the voice; false: only the key that stored it")


class VoiceList(_ResponseModel):
    """The list of all voices, in one page."""

    object: Literal["list"]
    data: list[BuiltInVoice | StoredVoiceCard]
    voices: list[Named] = Field(description="the same voices, for clients that look for this field")
    first_id: str | None
    last_id: str | None
    has_more: Literal[False]


class DeletedVoice(_ResponseModel):
    """Confirmation of a deleted voice."""

    id: str
    object: Literal["audio.voice.deleted"]
    deleted: Literal[True]


class VoiceEmbedding(_ResponseModel):
    """A speaker embedding, for the field ``speaker_embedding`` of a speech request."""

    object: Literal["audio.voice.embedding"]
    model: str
    speaker_embedding: list[float]


class Usage(_ResponseModel):
    """Input tokens, and output tokens (codec frames)."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class Word(_ResponseModel):
    """A word as it is spoken, with its punctuation."""

    word: str
    start: float = Field(description="seconds from the start of the audio")
    end: float


class BatchItemSuccess(_ResponseModel):
    """A successful item of a batch, with its audio file in base64."""

    index: int
    request_id: str
    status: Literal["success"]
    audio_data: str
    media_type: str
    sample_rate: int
    finish_reason: Literal["stop", "length"]
    usage: Usage
    words: list[Word] | None = Field(
        None, description="with timestamp_granularities: the times of the words; null where the language is not covered"
    )


class BatchItemError(_ResponseModel):
    """A failed item of a batch."""

    index: int
    request_id: str
    status: Literal["error"]
    error: ErrorFields


class BatchResults(_ResponseModel):
    """The results of a batch: one for each item, in order."""

    id: str
    object: Literal["audio.speech.batch"]
    results: list[BatchItemSuccess | BatchItemError]
    total: int
    succeeded: int
    failed: int


class Outcome(_ResponseModel):
    """The outcome of a request. Fields that do not apply are omitted."""

    object: Literal["audio.speech.outcome"]
    id: str
    status: int | None = None
    outcome: str
    key: str | None = None
    model: str | None = Field(None, description="the served model")
    engine: str | None = Field(None, description="names of the engines that processed the request, with commas")
    moves: int | None = Field(
        None, description="how often the request was submitted again, because an engine was lost or failed"
    )
    task: str | None = None
    voice: str | None = None
    reference: str | None = Field(None, description="what was done to the reference recording and its transcript")
    characters: int | None = None
    turns: int | None = None
    changed: str | None = Field(None, description="steps of the text front end that changed the text, with commas")
    spoken: str | None = Field(None, description="beginning of the spoken text, if it was changed")
    seconds: float
    first_audio: float | None = None
    onset: float | None = None
    audio: float | None = None
    rtf: float | None = None
    underruns: int | None = None
    finish: Literal["stop", "length", "cancelled"] | None = None
    retries: str | None = None
    fault: str | None = None
    error: str | None = None
    param: str | None = None
    words: list[Word] | None = Field(
        None, description="with timestamp_granularities: the times of the words; null where the language is not covered"
    )


class Health(_ResponseModel):
    """The process is up."""

    status: Literal["ok"]


class Ready(_ResponseModel):
    """The server is ready: the engine responds."""

    status: Literal["ready"]
    model: str
    requests: int = Field(description="number of running and queued speech requests of the HTTP process that answers")
    engine: dict[str, int] = Field(description="statistics of both stages, the sums of all engines")
    models: dict[str, Literal["ready", "unloaded", "unavailable"]] = Field(
        description="the state of each model; unloaded: the next request loads it"
    )
