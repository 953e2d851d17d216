"""``/health``, ``/ready`` and ``/metrics``, for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.errors import EngineError, EngineUnavailable
from server.api.openapi import errors
from server.api.responses import Health, Ready
from server.served_model import ServedModel
from server.services import Services, ServicesOf

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
    """Return 200 if, as far as is known, an engine responds and generates audio, else 503. Responds at once.

    After a start it is 503 until every model is ready.
    """
    services.check_ready()
    parts = await asyncio.gather(*(_known_stats(model) for model in services.models))
    known = [part for part in parts if part is not None]
    if not known:
        raise EngineUnavailable("the engine has not responded yet; try again later", code="engine_stalled")
    names = dict.fromkeys(name for part in known for name in part)
    return {
        "status": "ready",
        "model": services.model().name,
        "requests": services.admission.ticket_count,
        "engine": {name: sum(part.get(name, 0) for part in known) for name in names},
        "models": {model.name: model.state() for model in services.models},
    }


async def _known_stats(model: ServedModel) -> dict[str, int] | None:
    """Return the statistics of the model's engines; None if they have none now."""
    try:
        return await model.stats(_FRESH_SECONDS)
    except EngineError:
        return None


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=Response, responses=_METRICS_PAGE)
async def metrics(request: Request, services: ServicesOf) -> Response:
    """Return the Prometheus metrics, even if the engine does not respond. Responds at once."""
    draining: Sequence[Services] = request.app.state.current_services.draining
    models = [model for each in (*draining, services) for model in each.models]
    statuses = await asyncio.gather(*(model.statuses(_FRESH_SECONDS) for model in models))
    engines = {(*status.labels.values(),): status for each in statuses for status in each}  # those in use come last
    page, media_type = services.metrics.page(request.headers.get("accept", ""), [*engines.values()])
    return Response(page, media_type=media_type)
