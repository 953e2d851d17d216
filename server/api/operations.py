"""``/health``, ``/ready`` and ``/metrics``, for operators."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.errors import EngineUnavailable
from server.api.openapi import errors
from server.api.responses import Health, Ready
from server.services import ServicesOf

router = APIRouter()

_FRESH_SECONDS = 0.2
"""Timeout for fresh engine statistics; after it, the response has the last known ones."""
_METRICS_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.head("/health", include_in_schema=False)
@router.get("/health", response_model=Health)
async def health() -> dict[str, str]:
    """Return 200: the process is up."""
    return {"status": "ok"}


@router.head("/ready", include_in_schema=False)
@router.get("/ready", response_model=Ready, responses=errors(503))
async def ready(services: ServicesOf) -> dict[str, Any]:
    """Return 200 if, as far as is known, the engine responds and generates audio, else 503. Responds at once."""
    services.admission.check_open()
    for each in services.models:
        each.engine.check_health()
    model = services.model()
    engine = await model.stats(_FRESH_SECONDS)
    if engine is None:
        raise EngineUnavailable("the engine has not responded yet; try again later", code="engine_stalled")
    return {
        "status": "ready",
        "model": model.name,
        "requests": services.admission.ticket_count,
        "engine": engine,
    }


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=Response, responses=_METRICS_PAGE)
async def metrics(request: Request, services: ServicesOf) -> Response:
    """Return the Prometheus metrics, even if the engine does not respond. Responds at once."""
    engines = await asyncio.gather(*(model.status(_FRESH_SECONDS) for model in services.models))
    page, media_type = services.metrics.page(request.headers.get("accept", ""), engines)
    return Response(page, media_type=media_type)
