"""``POST /v1/audio/speech``: text in, speech out."""

from __future__ import annotations

from contextlib import ExitStack

from fastapi import APIRouter, Request
from starlette.responses import Response

from server.audio.encoders import ENCODERS
from server.openapi import body_of
from server.presence import unless_client_leaves
from server.request_log import RequestRecord
from server.responses import AudioStream, SpeechEvents, whole_audio
from server.routes.models import check_model
from server.schemas import SpeechBody, parse_speech
from server.services import JsonObject, Services, ServicesOf
from server.tasks import speech_request
from server.utterance import Utterance

router = APIRouter()


@router.post("/v1/audio/speech", response_class=Response, openapi_extra=body_of(SpeechBody))
async def create_speech(request: Request, services: ServicesOf, fields: JsonObject) -> Response:
    """Speech in the asked format: chunks as they are made, server-sent events, or one whole body.

    The status line waits for the first sound, so that whatever fails before it has a status of its own.
    """
    settings = services.settings
    body = parse_speech(fields, settings.limits, settings.ignored_fields)
    check_model(body.model, settings)
    kind = ENCODERS[body.response_format]
    record: RequestRecord = request.state.record
    with ExitStack() as held:
        held.enter_context(services.admission.seat())
        opening = _opened(body, services, record, held)
        utterance = await unless_client_leaves(request.receive, opening)
        if not body.stream:
            return await unless_client_leaves(request.receive, whole_audio(utterance, kind))
        stream = SpeechEvents if body.stream_format == "sse" else AudioStream
        return stream(utterance, kind, record, held.pop_all())


async def _opened(body: SpeechBody, services: Services, record: RequestRecord, held: ExitStack) -> Utterance:
    """The utterance at its first sound; ``held`` closes it."""
    asked = await speech_request(body, services.engine, services.settings)
    stream = services.engine.submit(asked)
    utterance = Utterance(stream, record, trim=services.settings.trim_leading_silence)
    held.callback(utterance.close)
    await utterance.open()
    return utterance
