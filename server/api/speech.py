"""``POST /v1/audio/speech``: speech for a text."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Route

from server.api.json_body import LARGE, json_bytes, json_object
from server.api.models import check_model
from server.api.openapi import BODY_ERRORS, SPEECH_RESPONSE, body_of, errors
from server.api.requests import SpeechBody, parse_speech
from server.http.clients import client_of
from server.http.disconnect import cancel_on_disconnect
from server.services import services_of
from server.settings import Settings
from server.synthesis.start import opened, rendering_of
from server.synthesis.streaming import MEDIA_TYPE, StreamedSpeech, error_event, speech_events, whole_audio, with_pings
from server.telemetry.record import RequestRecord

router = APIRouter()

_PATH = "/v1/audio/speech"
_EXAMPLE = {"input": "Hello there.", "response_format": "mp3"}


@router.post(
    _PATH,
    response_class=Response,
    responses=SPEECH_RESPONSE | errors(*BODY_ERRORS, 404, 429, 503, 504),
    openapi_extra=body_of(SpeechBody, _EXAMPLE),
)
async def create_speech(request: Request) -> Response:
    """Synthesize speech: streamed in chunks, as server-sent events, or as one complete body.

    The status line is not sent before the first audio, so that every earlier failure has its own status code.
    """
    services = await services_of(request)
    settings = services.settings
    raw = await json_bytes(request)
    record: RequestRecord = request.state.record
    services.outcomes.begun(record)
    body = await asyncio.to_thread(_parse, raw, settings) if len(raw) > LARGE else _parse(raw, settings)
    check_model(body.model, settings)
    with ExitStack() as held:
        seat = held.enter_context(services.admission.seat(client_of(request.scope)))
        with seat.evictable():
            opening = opened(body, services, record, held, seat)
            utterance = await cancel_on_disconnect(request.receive, opening)
            rendering = rendering_of(body, services, held)
            if not body.stream:
                return await cancel_on_disconnect(request.receive, whole_audio(utterance, rendering))
        patience = settings.limits.stalled_seconds
        if body.stream_format == "sse":
            events = with_pings(speech_events(utterance, rendering, record))
            held_all = held.pop_all()
            return StreamedSpeech(
                events, rendering, record, held_all, patience, seat, media_type=MEDIA_TYPE, error_event=error_event
            )
        return StreamedSpeech(utterance.encoded(rendering), rendering, record, held.pop_all(), patience, seat)


direct = Route(_PATH, create_speech, methods=["POST"], include_in_schema=False)
"""The same route without FastAPI's dependency injection, which this function does not need: its only parameter is the
request. It must come before all other routes. The router's own route documents it in OpenAPI."""


def _parse(raw: bytes, settings: Settings) -> SpeechBody:
    return parse_speech(json_object(raw), settings.limits, settings.ignored_fields)
