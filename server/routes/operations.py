"""``/health``, ``/ready`` and ``/metrics``, for those who run the server."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.errors import EngineError, EngineUnavailable
from server.openapi import errors
from server.services import ServicesOf
from server.shapes import Health, Ready

router = APIRouter()

_ROUND_TRIP_SECONDS = 5.0
_METRICS_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.head("/health", include_in_schema=False)
@router.get("/health", response_model=Health)
async def health() -> dict[str, str]:
    """The process is up."""
    return {"status": "ok"}


@router.head("/ready", include_in_schema=False)
@router.get("/ready", response_model=Ready, responses=errors(503))
async def ready(services: ServicesOf) -> dict[str, Any]:
    """200 when a question has just gone through the whole pipeline and come back; else 503."""
    services.admission.check_open()
    try:
        engine = await services.engine.stats(_ROUND_TRIP_SECONDS)
    except TimeoutError:
        raise EngineUnavailable("the pipeline does not move", code="engine_stalled") from None
    return {
        "status": "ready",
        "model": services.settings.model_name,
        "requests": services.admission.taken,
        "engine": engine,
    }


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=Response, responses=_METRICS_PAGE)
async def metrics(request: Request, services: ServicesOf) -> Response:
    """The figures for Prometheus, also of an engine that does not answer."""
    try:
        engine = await services.engine.stats(_ROUND_TRIP_SECONDS)
        engine["reference_hits"] += services.references.hits
    except (EngineError, TimeoutError):
        engine = None
    page, media_type = services.metrics.page(request.headers.get("accept", ""), engine)
    return Response(page, media_type=media_type)
