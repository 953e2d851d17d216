"""``POST /dev/captioned_speech``, as in Kokoro-FastAPI. Its other routes are those of the OpenAI API."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from server.api.json_body import JsonBytes
from server.errors import ApiError, shown_value
from server.request_models.base import unknown_parameter
from server.request_models.field_names import unknown_fields
from server.request_models.json_object import parse_body, parse_json_object
from server.request_models.speech import SpeechBody, parse_speech
from server.services import ServicesOf
from server.settings import Settings
from server.synthesis.captions import CaptionedResponse
from server.telemetry.record import RequestRecord

router = APIRouter()


@router.post("/dev/captioned_speech", include_in_schema=False)
async def create_captioned_speech(request: Request, services: ServicesOf, raw: JsonBytes) -> Response:
    """Synthesize speech and return it with the times of its words, as JSON."""
    record: RequestRecord = request.state.record
    services.outcomes.add_running(record)
    body = await parse_body(lambda raw: _parse(raw, services.settings), raw)
    return CaptionedResponse(body, services.model(body.model), services, record)


def _parse(raw: bytes, settings: Settings) -> SpeechBody:
    fields = parse_json_object(raw)
    for name in ("stream_format", "timestamp_granularities"):
        if name in fields:
            raise unknown_parameter(name, ())
    if _returns_timestamps(fields.pop("return_timestamps", None)):
        fields["timestamp_granularities"] = ["word"]
    return parse_speech(fields, settings.limits, unknown_fields(settings))


def _returns_timestamps(value: object) -> bool:
    for answer, spellings in ((True, (None, "", True, "true")), (False, (False, "false"))):
        if value in spellings:
            return answer
    message = f"return_timestamps must be true or false, got {shown_value(value)}"
    raise ApiError(message, param="return_timestamps", code="invalid_type")
