"""``/health``, ``/ready`` and ``/metrics``, for operators."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.client.client import EngineClient
from engine.errors import EngineError, EngineUnavailable
from server.api.openapi import errors
from server.api.responses import Health, Ready
from server.services import ServicesOf
from server.telemetry.metrics import EngineFigures

router = APIRouter()

_FRESH_SECONDS = 0.2
"""Timeout for fresh engine statistics; after it, the response has the last known ones."""
_METRICS_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
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
    services.engine.check_health()
    engine = await _stage_figures(services.engine)
    if engine is None:
        raise EngineUnavailable("the engine has not answered yet", code="engine_stalled")
    return {
        "status": "ready",
        "model": services.settings.model_name,
        "requests": services.admission.taken,
        "engine": engine,
    }


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=Response, responses=_METRICS_PAGE)
async def metrics(request: Request, services: ServicesOf) -> Response:
    """Return the Prometheus metrics, even if the engine does not respond. Responds at once."""
    engine = services.engine
    try:
        figures = await _stage_figures(engine)
        up = figures is not None
    except EngineError:
        figures, up = engine.last_stats, False
    if figures is not None:
        figures["reference_hits"] += services.references.hits
    known = EngineFigures(up, engine.restarts, figures)
    page, media_type = services.metrics.page(request.headers.get("accept", ""), known)
    return Response(page, media_type=media_type)


async def _stage_figures(engine: EngineClient) -> dict[str, int] | None:
    """Return fresh statistics of both stages, or the last known ones. Raises EngineError if the engine is not ready."""
    try:
        return await engine.stats(_FRESH_SECONDS)
    except TimeoutError:
        return engine.last_stats
