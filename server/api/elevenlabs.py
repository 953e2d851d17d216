"""ElevenLabs' basic routes for text to speech: ``POST /v1/text-to-speech/{voice_id}`` and the list of voices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import RequestError
from server.api.json_body import JsonBytes
from server.errors import ApiError, shown, shown_value
from server.http.clients import client_of
from server.http.disconnect import cancel_on_disconnect
from server.request_models.base import unknown_parameter
from server.request_models.field_names import unknown_fields
from server.request_models.json_object import parse_body, parse_json_object
from server.request_models.speech import SpeechBody, parse_speech
from server.services import Services, ServicesOf
from server.synthesis.speech_response import SpeechResponse
from server.telemetry.record import RequestRecord
from server.voices.stored_voice import VoiceHeader

router = APIRouter(prefix="/v1", include_in_schema=False)

_FIELDS = {
    "text": "input",
    "language_code": "language",
    "seed": "seed",
    "apply_text_normalization": "normalize",
    "voice_settings.speed": "speed",
    "voice_id": "voice",
    "model_id": "model",
    "output_format": "sample_rate",
}
"""ElevenLabs' names of fields, each with that of a speech request."""
_IGNORED = frozenset(
    "apply_language_text_normalization next_request_ids next_text previous_request_ids previous_text "
    "use_pvc_as_ivc voice_settings".split()
)
_NORMALIZATION = {"auto": None, "on": True, "off": False}
_OUTPUT_FORMAT = re.compile(r"(?P<format>mp3|pcm|opus|wav)_(?P<rate>\d{4,5})(?:_\d{2,3})?")
_DEFAULT_FORMAT = "mp3_44100_128"
_OWN_MODELS = "eleven_"
"""How ElevenLabs' names of models begin. They stand for the default model."""


@router.post("/text-to-speech/{voice_id}")
async def create_speech(voice_id: str, request: Request, services: ServicesOf, raw: JsonBytes) -> Response:
    """Synthesize speech and return it as one complete file."""
    return await _response(voice_id, request, services, raw, stream=False)


@router.post("/text-to-speech/{voice_id}/stream")
async def stream_speech(voice_id: str, request: Request, services: ServicesOf, raw: JsonBytes) -> Response:
    """Synthesize speech and stream it."""
    return await _response(voice_id, request, services, raw, stream=True)


@router.get("/voices")
async def list_voices(request: Request, services: ServicesOf) -> dict[str, Any]:
    """List the voices of the default model."""
    model, owner = services.model(), request.state.record.owner
    speakers = [(speaker, speaker) for speaker in model.info.speakers]
    store = model.voices.store(owner)
    with services.voice_listing.ticket(client_of(request.scope)) as ticket:

        async def read_in_turn() -> list[VoiceHeader]:
            await ticket.wait_until_running()
            return await store.headers()

        headers = await cancel_on_disconnect(request.receive, read_in_turn())
    stored = [(header.name, header.display_name or header.name) for header in headers]
    return {
        "voices": [
            {"voice_id": identifier, "name": name, "category": category}
            for category, voices in (("premade", speakers), ("cloned", stored))
            for identifier, name in voices
        ]
    }


async def _response(voice_id: str, request: Request, services: Services, raw: bytes, *, stream: bool) -> Response:
    record: RequestRecord = request.state.record
    services.outcomes.add_running(record)
    output = _output_fields(request.query_params.get("output_format") or _DEFAULT_FORMAT)
    settings = services.settings

    def parse(raw: bytes) -> SpeechBody:
        unknown = unknown_fields(settings)
        with _own_field_names():
            fields = _speech_fields(parse_json_object(raw))
            return parse_speech({**fields, **output, "voice": voice_id, "stream": stream}, settings.limits, unknown)

    body = await parse_body(parse, raw)
    with _own_field_names():
        model = services.model(None if (body.model or "").startswith(_OWN_MODELS) else body.model)
    return _SpeechResponse(body, model, services, record)


class _SpeechResponse(SpeechResponse):
    """A speech response whose errors have ElevenLabs' names of fields."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with _own_field_names():
            await super().__call__(scope, receive, send)


def _output_fields(output_format: str) -> dict[str, Any]:
    found = _OUTPUT_FORMAT.fullmatch(output_format)
    if found is None:
        message = (
            f"output_format must be mp3, opus, pcm or wav with a sample rate, such as mp3_44100_128 or pcm_16000, got "
            f"'{shown(output_format)}'"
        )
        raise ApiError(message, param="output_format")
    return {"response_format": found["format"], "sample_rate": int(found["rate"])}


def _speech_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a speech request for those of ElevenLabs. Unknown ones stay, for ``parse_speech``."""
    fields = {name: value for name, value in given.items() if name not in _FIELDS and name not in _IGNORED}
    if (foreign := next(iter(fields.keys() & SpeechBody.model_fields.keys()), None)) is not None:
        raise unknown_parameter(foreign, _FIELDS)
    fields |= {_FIELDS[name]: given[name] for name in ("text", "language_code", "seed", "model_id") if name in given}
    settings = given.get("voice_settings")
    if settings is not None and not isinstance(settings, dict):
        message = f"voice_settings must be an object, got {shown_value(settings)}"
        raise ApiError(message, param="voice_settings", code="invalid_type")
    if settings and "speed" in settings:
        fields["speed"] = settings["speed"]
    normalization = given.get("apply_text_normalization") or "auto"
    if not isinstance(normalization, str) or normalization not in _NORMALIZATION:
        message = f"apply_text_normalization must be 'auto', 'on' or 'off', got {shown_value(normalization)}"
        raise ApiError(message, param="apply_text_normalization")
    return {**fields, "normalize": _NORMALIZATION[normalization]}


@contextmanager
def _own_field_names() -> Iterator[None]:
    """Name the fields in errors as ElevenLabs does: ``text`` for ``input``."""
    try:
        yield
    except (ApiError, RequestError) as error:
        if error.code == "unknown_parameter":
            raise
        name = next((own for own, speech in _FIELDS.items() if speech == error.param), error.param)
        message = error.message
        if error.param is not None and message.startswith(f"{error.param} "):
            message = f"{name}{message.removeprefix(error.param)}"
        if isinstance(error, RequestError):
            raise RequestError(message, code=error.code, param=name) from None
        raise ApiError(
            message, status=error.status, param=name, code=error.code, retry_after=error.retry_after
        ) from None
