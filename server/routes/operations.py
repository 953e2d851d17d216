"""``/health`` and ``/ready``, for those who run the server, and what its bare address shows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse

from engine.errors import EngineUnavailable
from server.services import ServicesOf

router = APIRouter()

_ROUND_TRIP_SECONDS = 5.0


@router.get("/", include_in_schema=False)
async def root() -> RedirectResponse:
    """The description of the API."""
    return RedirectResponse("/docs", 307)


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health() -> dict[str, str]:
    """The process is up."""
    return {"status": "ok"}


@router.head("/ready", include_in_schema=False)
@router.get("/ready")
async def ready(services: ServicesOf) -> dict[str, Any]:
    """200 when a question has just gone through the whole pipeline and come back; else 503."""
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
