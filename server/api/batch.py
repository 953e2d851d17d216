"""``POST /v1/audio/speech/batch``: speech for several texts in one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from server.api.json_body import JsonBytes
from server.api.openapi import BATCH_RESPONSE, BODY_ERRORS, errors, json_body, schema_of
from server.batch.requests import NOT_COMMON, NOT_IN_BATCH, parse_batch
from server.batch.results import batch_body
from server.batch.run import run_batch
from server.http.clients import client_of
from server.request_models.field_names import ignored_header
from server.request_models.json_object import parse_body
from server.request_models.speech import SpeechBody
from server.services import ServicesOf
from server.synthesis.streaming import StreamedResponse
from server.telemetry.record import RequestRecord

router = APIRouter()

_BLOCK_BYTES = 64 * 1024
_EXAMPLE = {"items": [{"input": "Hello there."}, {"input": "Good morning."}], "response_format": "mp3"}


def _batch_schema() -> dict[str, Any]:
    """Return the JSON schema of a batch's body, derived from the schema of a speech request."""
    speech = schema_of(SpeechBody)["properties"]
    fields = {name: field for name, field in speech.items() if name not in NOT_IN_BATCH}
    item = {"type": "object", "properties": fields, "required": ["input"], "additionalProperties": False}
    common = {name: field for name, field in fields.items() if name not in NOT_COMMON}
    items = {"type": "array", "items": item, "minItems": 1}
    return {
        "type": "object",
        "properties": {"items": items, **common},
        "required": ["items"],
        "additionalProperties": False,
    }


@router.post(
    "/v1/audio/speech/batch",
    response_class=Response,
    responses=BATCH_RESPONSE | errors(*BODY_ERRORS, 429, 503),
    openapi_extra=json_body(_batch_schema(), _EXAMPLE),
)
async def create_batch(request: Request, services: ServicesOf, raw: JsonBytes) -> Response:
    """Synthesize every item. The response has each item's audio in base64, or its error, in the order of the items."""
    settings = services.settings
    record: RequestRecord = request.state.record
    services.outcomes.add_running(record)
    batch = await parse_body(lambda raw: parse_batch(raw, settings), raw)
    results = await run_batch(batch.items, services, record, client_of(request.scope), request.receive)
    body = await asyncio.to_thread(batch_body, record.id, results)
    headers = {"Content-Length": str(len(body)), "Cache-Control": "no-store", **ignored_header(batch.ignored_fields())}
    return StreamedResponse(_blocks(body), "application/json", headers, record, settings.limits.stalled_seconds)


async def _blocks(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), _BLOCK_BYTES):
        yield body[start : start + _BLOCK_BYTES]
