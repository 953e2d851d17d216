"""``/health``, ``/ready`` and ``/metrics``, for operators."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import State

from engine.errors import EngineError, EngineUnavailable
from server.api.openapi import errors
from server.api.responses import Health, Ready
from server.served_model import ServedModel
from server.services import CurrentServices, ServicesOf

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
async def metrics(request: Request) -> Response:
    """Return the Prometheus metrics, even if the engine does not respond. Responds at once."""
    page, media_type = await metrics_page(request.app.state, request.headers.get("accept", ""))
    return Response(page, media_type=media_type)


async def metrics_page(state: State, accept: str) -> tuple[bytes, str]:
    """Return the metrics page of all processes of the server in the format that ``accept`` selects, and its media type.

    state: of the application. Raises ApiError 503 if the process that collects the metrics does not answer.
    """
    current: CurrentServices = state.current_services
    services = current.services
    if (elsewhere := await services.peers.metrics_page(accept)) is not None:
        return elsewhere
    models = [model for each in (*current.draining, services) for model in each.models]
    asking = asyncio.create_task(services.peers.metrics())
    statuses = await asyncio.gather(*(model.statuses(_FRESH_SECONDS) for model in models))
    engines = {(*status.labels.values(),): status for each in statuses for status in each}  # those in use come last
    return services.metrics.page(accept, [*engines.values()], await asking)
