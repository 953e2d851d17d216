"""Creates a voice from a multipart form that contains a recording or a speaker embedding."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi import Request
from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from engine.errors import RequestError
from engine.protocol.request import EngineInfo, Voice
from server.api.requests import Embedding
from server.errors import ApiError, ClientDisconnected, code_of, shown
from server.references.library import ReferenceLibrary
from server.settings import Settings
from server.voices.resolve import check_cloning, embedding_of
from server.voices.stored_voice import MAX_TRANSCRIPT, Origin

log = logging.getLogger("sonant")

_KIND = "multipart/form-data"
_MOST_PARTS = 16
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class VoiceForm:
    """A parsed form: its text fields by name, and the recording if it contains one."""

    texts: dict[str, str]
    audio_sample: bytes | None

    def text(self, name: str, most: int) -> str | None:
        """Return a field's text, or None if it is missing or blank.

        Raises ApiError when it has more than ``most`` characters or is not encodable as UTF-8.
        """
        text = self.texts.get(name, "").strip()
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ApiError(f"Invalid '{name}': it is no text.", param=name) from None
        if len(text) > most:
            message = f"Invalid '{name}': {len(text)} characters; at most {most} are accepted."
            raise ApiError(message, param=name, code="string_above_max_length")
        return text or None

    def flag(self, name: str) -> bool | None:
        """Return a field's boolean, or None if it is missing or blank. Raises ApiError unless "true" or "false"."""
        text = self.text(name, 64)
        if text is None:
            return None
        if text.lower() not in _FLAGS:
            raise ApiError(f"Invalid '{name}': it must be 'true' or 'false', not '{text}'.", param=name)
        return _FLAGS[text.lower()]


async def read_form(request: Request, names: Collection[str]) -> VoiceForm:
    """Read the form in the body of ``request``.

    Raises ApiError when the body is not a valid form, has a field other than ``names`` and ``audio_sample``, or has a
    field twice, and when the upload cannot be stored temporarily. Raises ClientDisconnected.
    """
    _check_headers(request)
    texts: dict[str, str] = {}
    sample: bytes | None = None
    try:
        async with request.form(max_files=1, max_fields=_MOST_PARTS) as form:
            for name, value in form.multi_items():
                _check_field(name, value, names, taken=name in texts or (name == "audio_sample" and sample is not None))
                if isinstance(value, UploadFile):
                    sample = await value.read()
                else:
                    texts[name] = value
    except ClientDisconnect:
        raise ClientDisconnected from None
    except OSError as error:  # an upload above 1 MB is spooled to the folder for temporary files
        log.warning("an upload could not be stored temporarily: %s", error)
        message = "The server has no room for this upload; its folder for temporary files is full or not writable."
        raise ApiError(message, status=507, code="insufficient_storage") from None
    except HTTPException as error:
        raise ApiError(f"The body is not a valid form: {error.detail}", code="invalid_multipart") from None
    return VoiceForm(texts, sample)


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        named = f"not '{shown(kind)}'" if kind else "and its Content-Type must say so"
        raise ApiError(f"The body must be {_KIND}, {named}.", status=415, code="unsupported_media_type")


def _check_field(name: str, value: UploadFile | str, names: Collection[str], *, taken: bool) -> None:
    param = shown(name)
    if name != "audio_sample" and name not in names:
        raise ApiError(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    if taken:
        raise ApiError(f"'{param}' is given twice.", param=param)
    if isinstance(value, UploadFile) != (name == "audio_sample"):
        wanted = "a file" if name == "audio_sample" else "a text, not a file"
        raise ApiError(f"Invalid '{param}': it must be {wanted}.", param=param, code="invalid_type")


_NUMBERS = TypeAdapter(Embedding, config=ConfigDict(strict=True, allow_inf_nan=False))
_THERE, _HERE = "ref_audio", "audio_sample"
"""The name of the recording's field in a speech request, and in this form."""


def origin_of(form: VoiceForm) -> Origin:
    """Return what the form's voice is made from.

    Raises ApiError when the form has no source, has two, contradicts its ``type``, or has an unsupported ``type``.
    """
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
    """Return the form's voice.

    With a transcript the voice includes the recording's codes, so that later requests need not encode it.
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
    """Rename the field in errors about the recording from ``ref_audio`` to ``audio_sample``."""
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
