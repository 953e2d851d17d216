"""``/v1/audio/speech``: speech for a text, requested with a JSON body, or with a URL."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Route

from server.api.json_body import json_bytes
from server.api.openapi import BODY_ERRORS, SPEECH_RESPONSE, body_of, errors
from server.errors import ApiError, shown
from server.http.paths import SPEECH
from server.request_models.field_names import unknown_fields
from server.request_models.json_object import parse_body, parse_json_object
from server.request_models.speech import SpeechBody, parse_speech
from server.services import services_of
from server.synthesis.speech_response import SpeechResponse
from server.telemetry.record import RequestRecord

router = APIRouter()

_EXAMPLE = {"input": "Hello there.", "response_format": "mp3"}


@router.post(
    SPEECH,
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
    services.outcomes.add_running(record)

    def parse(raw: bytes) -> SpeechBody:
        return parse_speech(parse_json_object(raw), settings.limits, unknown_fields(settings))

    body = await parse_body(parse, raw)
    return SpeechResponse(body, services.model(body.model), services, record)


async def get_speech(request: Request) -> Response:
    """Synthesize speech for the fields in the query, so that a page can play it as ``<audio src>``."""
    services = await services_of(request)
    settings = services.settings
    record: RequestRecord = request.state.record
    services.outcomes.add_running(record)
    fields = dict(request.query_params)
    for name in fields:
        if len(values := request.query_params.getlist(name)) > 1:
            message = f"{shown(name)} must be given once, got {len(values)} values"
            raise ApiError(message, param=shown(name))
    body = parse_speech(fields, settings.limits, unknown_fields(settings))
    return SpeechResponse(body, services.model(body.model), services, record)


direct = Route(SPEECH, create_speech, methods=["POST"], include_in_schema=False)
"""The same route without FastAPI's dependency injection, which this function does not need: its only parameter is the
request. It must come before all other routes. The router's own route documents it in OpenAPI."""

by_url = Route(SPEECH, get_speech, methods=["GET"], include_in_schema=False)
"""The route of speech that is requested with a URL, for the setting ``get_speech``."""
by_url.methods = {"GET"}  # Starlette adds HEAD, which would synthesize speech that no client receives
