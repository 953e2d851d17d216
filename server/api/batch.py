"""``POST /v1/audio/speech/batch``: speech for several texts in one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack

from fastapi import APIRouter, Request
from starlette.responses import Response

from server.api.json_body import LARGE, JsonBytes
from server.api.openapi import BATCH_RESPONSE, BODY_ERRORS, errors, json_body
from server.batch.requests import batch_schema, parse_batch
from server.batch.results import answer
from server.batch.run import Batch
from server.http.clients import client_of
from server.http.disconnect import cancel_on_disconnect
from server.services import ServicesOf
from server.synthesis.streaming import Streamed
from server.telemetry.record import RequestRecord

router = APIRouter()

_BLOCK = 64 * 1024
_EXAMPLE = {"items": [{"input": "Hello there."}, {"input": "Good morning."}], "response_format": "mp3"}


@router.post(
    "/v1/audio/speech/batch",
    response_class=Response,
    responses=BATCH_RESPONSE | errors(*BODY_ERRORS, 429, 503),
    openapi_extra=json_body(batch_schema(), _EXAMPLE),
)
async def create_batch(request: Request, services: ServicesOf, raw: JsonBytes) -> Response:
    """Synthesize every item. The response has each item's audio in base64, or its error, in the order of the items."""
    settings = services.settings
    record: RequestRecord = request.state.record
    services.outcomes.begun(record)
    asked = await asyncio.to_thread(parse_batch, raw, settings) if len(raw) > LARGE else parse_batch(raw, settings)
    _ = services.engine.info
    with ExitStack() as held:
        batch = Batch(asked, services, record, held, client_of(request.scope))
        results = await cancel_on_disconnect(request.receive, batch.results())
    body = await asyncio.to_thread(answer, record.id, results)
    headers = {"Content-Length": str(len(body)), "Cache-Control": "no-store"}
    patience = settings.limits.stalled_seconds
    return Streamed(_blocks(body), "application/json", headers, record, ExitStack(), patience)


async def _blocks(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), _BLOCK):
        yield body[start : start + _BLOCK]
