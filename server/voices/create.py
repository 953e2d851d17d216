"""Creates a voice from a multipart form that contains a recording or a speaker embedding."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fastapi import Request
from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from engine.errors import RequestError
from engine.protocol.request import Voice
from server.errors import ApiError, ClientDisconnected, code_of, field_message, shown
from server.references.transcript import transcript_for
from server.request_models.speech import check_length
from server.request_models.voices import Embedding
from server.served_model import ServedModel
from server.synthesis.spoken_input import text_steps
from server.voices.resolve import check_cloning, check_in_context, embedding_of
from server.voices.stored_voice import MAX_TRANSCRIPT, Origin

log = logging.getLogger("sonant")

_MEDIA_TYPE = "multipart/form-data"
_MAX_PARTS = 16
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class VoiceForm:
    """A parsed form: its text fields by name, and the recording if it contains one."""

    texts: dict[str, str]
    audio_sample: bytes | None

    def text(self, name: str, max_length: int) -> str | None:
        """Return a field's text, or None if it is missing or blank.

        Raises ApiError when it has more than ``max_length`` characters or is not encodable as UTF-8.
        """
        text = self.texts.get(name, "").strip()
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ApiError(f"{name} must be valid UTF-8 text", param=name) from None
        check_length(name, text, max_length)
        return text or None

    def flag(self, name: str) -> bool | None:
        """Return a field's boolean, or None if it is missing or blank. Raises ApiError unless "true" or "false"."""
        text = self.text(name, 64)
        if text is None:
            return None
        if text.lower() not in _FLAGS:
            raise ApiError(f"{name} must be 'true' or 'false', got '{text}'", param=name)
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
        async with request.form(max_files=1, max_fields=_MAX_PARTS) as form:
            for name, value in form.multi_items():
                repeated = name in texts or (name == "audio_sample" and sample is not None)
                _check_field(name, value, names, repeated=repeated)
                if isinstance(value, UploadFile):
                    sample = await value.read()
                else:
                    texts[name] = value
    except ClientDisconnect:
        raise ClientDisconnected from None
    except OSError as error:  # an upload above 1 MB is spooled to the folder for temporary files
        log.warning("an upload cannot be written to the folder for temporary files: %s", error)
        message = "the upload cannot be stored: the server's folder for temporary files is full or not writable"
        raise ApiError(message, status=507, code="insufficient_storage") from None
    except HTTPException as error:
        raise ApiError(f"the body is not a valid form: {error.detail}", code="invalid_multipart") from None
    return VoiceForm(texts, sample)


def _check_headers(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _MEDIA_TYPE:
        message = f"Content-Type must be {_MEDIA_TYPE}, got '{shown(media_type)}'"
        raise ApiError(message, status=415, code="unsupported_media_type")


def _check_field(name: str, value: UploadFile | str, names: Collection[str], *, repeated: bool) -> None:
    param = shown(name)
    if name != "audio_sample" and name not in names:
        raise ApiError(f"unknown parameter '{param}'", param=param, code="unknown_parameter")
    if repeated:
        raise ApiError(f"{param} must be given once, got it twice", param=param)
    if isinstance(value, UploadFile) != (name == "audio_sample"):
        wanted, got = ("a file", "text") if name == "audio_sample" else ("text", "a file")
        raise ApiError(f"{param} must be {wanted}, got {got}", param=param, code="invalid_type")


_NUMBERS = TypeAdapter(Embedding, config=ConfigDict(strict=True, allow_inf_nan=False))
_SPEECH_FIELD, _FORM_FIELD = "ref_audio", "audio_sample"
"""The name of the recording's field in a speech request, and in this form."""


def origin_of(form: VoiceForm) -> Origin:
    """Return what the form's voice is made from.

    Raises ApiError when the form has no source, has two, contradicts its ``type``, or has an unsupported ``type``.
    """
    has_sample, has_embedding = form.audio_sample is not None, "speaker_embedding" in form.texts
    if has_sample and has_embedding:
        message = f"only one of {_FORM_FIELD} and speaker_embedding may be given, got both"
        raise ApiError(message, param="speaker_embedding")
    kind = form.text("type", 64)
    if kind == "prompt" or "prompt" in form.texts:
        message = "type 'prompt' is not supported; allowed: 'audio_sample', 'speaker_embedding'"
        raise ApiError(message, param="type", code="not_supported")
    if kind not in (None, "audio_sample", "speaker_embedding"):
        raise ApiError(f"type must be 'audio_sample' or 'speaker_embedding', got '{kind}'", param="type")
    origin: Origin = "speaker_embedding" if has_embedding or kind == "speaker_embedding" else "audio_sample"
    if not (has_embedding if origin == "speaker_embedding" else has_sample):
        raise ApiError(f"{origin} is required", param=origin, code="missing_required_parameter")
    if kind not in (None, origin):
        raise ApiError(f"type is '{kind}', but the form has a field {origin}", param="type")
    return origin


async def voice_from(form: VoiceForm, model: ServedModel) -> Voice:
    """Return the form's voice.

    With a transcript the voice includes the recording's codes, so that later requests need not encode it. It keeps the
    transcript as it was given, unless the recording was cut.
    Raises ApiError or EngineError.
    """
    check_cloning(model.info, origin_of(form))
    transcript = _transcript(form, model)
    if form.audio_sample is None:
        return Voice(embedding_of(_numbers(form.texts["speaker_embedding"]), model.info))
    with _form_field_in_errors():
        if transcript is None:
            return (await model.references.voice_of(form.audio_sample, None)).voice
        spoken = await asyncio.to_thread(
            transcript_for, transcript, model.info, text_steps(None, model.info, model.text)
        )
        cloned = await model.references.voice_of(form.audio_sample, spoken)
    whole = cloned.voice.transcript == spoken.text
    return replace(cloned.voice, transcript=transcript) if whole else cloned.voice


def _transcript(form: VoiceForm, model: ServedModel) -> str | None:
    transcript = form.text("ref_text", min(model.limits.max_input_chars, MAX_TRANSCRIPT))
    if transcript is None:
        return None
    if form.audio_sample is None:
        message = f"ref_text is the transcript of {_FORM_FIELD}, which is missing: add {_FORM_FIELD}, or omit ref_text"
        raise ApiError(message, param=_FORM_FIELD, code="missing_required_parameter")
    check_in_context(model.info)
    return transcript


def _numbers(text: str) -> list[float]:
    try:
        return _NUMBERS.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = f"{field_message('speaker_embedding', first)}; send a JSON list of numbers"
        raise ApiError(message, param="speaker_embedding", code=code_of(first["type"])) from None


@contextmanager
def _form_field_in_errors() -> Iterator[None]:
    """Rename the field in errors about the recording from ``ref_audio`` to ``audio_sample``."""
    try:
        yield
    except ApiError as error:
        if error.param != _SPEECH_FIELD:
            raise
        message = error.message.replace(_SPEECH_FIELD, _FORM_FIELD)
        raise ApiError(message, status=error.status, param=_FORM_FIELD, code=error.code) from None
    except RequestError as error:
        if error.param != _SPEECH_FIELD:
            raise
        raise RequestError(error.message, code=error.code, param=_FORM_FIELD) from None
