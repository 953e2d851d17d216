"""``POST /v1/audio/speech``: text in, speech out."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from fastapi import APIRouter, Request
from starlette.responses import Response

from server.audio.encoders import ENCODERS
from server.errors import ApiError
from server.events import MEDIA_TYPE, speech_events, with_pings
from server.json_body import LARGE, JsonBytes, json_object
from server.openapi import SPEECH_RESPONSE, body_of
from server.presence import unless_client_leaves
from server.request_log import RequestRecord
from server.responses import StreamedSpeech, whole_audio
from server.routes.models import check_model
from server.schemas import SpeechBody, parse_speech
from server.services import Services, ServicesOf
from server.settings import Settings
from server.tasks import speech_request
from server.utterance import Utterance

router = APIRouter()

_EXAMPLE = {"input": "Hello there.", "response_format": "wav"}


@router.post(
    "/v1/audio/speech",
    response_class=Response,
    responses=SPEECH_RESPONSE,
    openapi_extra=body_of(SpeechBody, _EXAMPLE),
)
async def create_speech(request: Request, services: ServicesOf, raw: JsonBytes) -> Response:
    """Speech in the asked format: chunks as they are made, server-sent events, or one whole body.

    The status line waits for the first sound, so that whatever fails before it has a status of its own.
    """
    settings = services.settings
    body = await asyncio.to_thread(_parse, raw, settings) if len(raw) > LARGE else _parse(raw, settings)
    check_model(body.model, settings)
    kind = ENCODERS[body.response_format]
    record: RequestRecord = request.state.record
    with ExitStack() as held:
        held.enter_context(services.admission.seat())
        opening = _opened(body, services, record, held)
        utterance = await unless_client_leaves(request.receive, opening)
        if not body.stream:
            return await unless_client_leaves(request.receive, whole_audio(utterance, kind))
        patience = settings.limits.stalled_seconds
        if body.stream_format == "sse":
            events = with_pings(speech_events(utterance, kind(None), record))
            return StreamedSpeech(events, MEDIA_TYPE, record, held.pop_all(), patience)
        return StreamedSpeech(utterance.encoded(kind(None)), kind.media_type, record, held.pop_all(), patience)


def _parse(raw: bytes, settings: Settings) -> SpeechBody:
    return parse_speech(json_object(raw), settings.limits, settings.ignored_fields)


async def _opened(body: SpeechBody, services: Services, record: RequestRecord, held: ExitStack) -> Utterance:
    """The utterance at its first sound; ``held`` closes it. Raises ApiError 504 when there is none in time."""
    patience = services.settings.limits.first_sound_seconds
    try:
        async with asyncio.timeout(patience) as deadline:
            asked = await speech_request(body, services.engine, services.settings)
            stream = services.engine.submit(asked)
            utterance = Utterance(stream, record, trim=services.settings.trim_leading_silence)
            held.callback(utterance.close)
            await utterance.open()
    except TimeoutError:
        if not deadline.expired():
            raise
        message = f"There was nothing to hear within {patience:g} s."
        raise ApiError(message, status=504, code="deadline_exceeded") from None
    return utterance
