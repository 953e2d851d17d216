"""From a form to a voice: its recording checked and encoded, or its embedding checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ConfigDict, TypeAdapter, ValidationError

from engine.errors import RequestError
from engine.request import EngineInfo, Voice
from server.errors import ApiError, code_of
from server.references.library import ReferenceLibrary
from server.schemas import Embedding
from server.settings import Settings
from server.voices.casting import check_cloning, embedding_of
from server.voices.forms import VoiceForm
from server.voices.stored import MAX_TRANSCRIPT, Origin

_NUMBERS = TypeAdapter(Embedding, config=ConfigDict(strict=True, allow_inf_nan=False))
_THERE, _HERE = "ref_audio", "audio_sample"
"""What the same recording is called in a speech request, and in a form."""


def origin_of(form: VoiceForm) -> Origin:
    """What the form's voice is made from. Raises ApiError where that is nothing, two things, or not available."""
    has_sample, has_embedding = form.audio_sample is not None, "speaker_embedding" in form.texts
    if has_sample and has_embedding:
        raise ApiError(f"Give '{_HERE}' or 'speaker_embedding', not both.", param="speaker_embedding")
    kind = form.text("type", 64)
    if kind == "prompt" or "prompt" in form.texts:
        message = "Not supported 'type': voices are made of recordings and embeddings, not of prompts."
        raise ApiError(message, param="type", code="not_supported")
    if kind not in (None, "audio_sample", "speaker_embedding"):
        raise ApiError("Invalid 'type': it must be 'audio_sample' or 'speaker_embedding'.", param="type")
    origin: Origin = "speaker_embedding" if has_embedding or kind == "speaker_embedding" else "audio_sample"
    if not (has_embedding if origin == "speaker_embedding" else has_sample):
        raise _missing(origin)
    if kind not in (None, origin):
        raise ApiError(f"Invalid 'type': a '{origin}' was sent.", param="type")
    return origin


async def voice_from(form: VoiceForm, info: EngineInfo, settings: Settings, references: ReferenceLibrary) -> Voice:
    """The form's voice; with a transcript also its codes, so that no later request encodes anything.

    Raises ApiError or EngineError.
    """
    check_cloning(info, origin_of(form))
    transcript = _transcript(form, info, settings)
    if form.audio_sample is None:
        return Voice(embedding_of(_numbers(form.texts["speaker_embedding"]), info))
    with _named_here():
        return await references.voice_of(form.audio_sample, transcript)


def _transcript(form: VoiceForm, info: EngineInfo, settings: Settings) -> str | None:
    transcript = form.text("ref_text", min(settings.limits.max_input_chars, MAX_TRANSCRIPT))
    if transcript is not None and form.audio_sample is None:
        message = f"'ref_text' is the transcript of an '{_HERE}', which is missing."
        raise ApiError(message, param=_HERE, code="missing_required_parameter")
    if transcript is not None and not info.in_context:
        message = "This checkpoint clones from the voice alone: leave 'ref_text' out."
        raise ApiError(message, param="ref_text", code="unsupported_task")
    return transcript


def _numbers(text: str) -> list[float]:
    try:
        return _NUMBERS.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        message = f"Invalid 'speaker_embedding': {first['msg']}; a JSON list of numbers is needed."
        raise ApiError(message, param="speaker_embedding", code=code_of(first["type"])) from None


def _missing(name: str) -> ApiError:
    return ApiError(f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")


@contextmanager
def _named_here() -> Iterator[None]:
    """A refusal of a reference speaks of the form's field."""
    try:
        yield
    except ApiError as error:
        if error.param != _THERE:
            raise
        message = error.message.replace(f"'{_THERE}'", f"'{_HERE}'")
        raise ApiError(message, status=error.status, param=_HERE, code=error.code) from None
    except RequestError as error:
        if error.param != _THERE:
            raise
        raise RequestError(error.message, code=error.code, param=_HERE) from None
