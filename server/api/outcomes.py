"""``GET /v1/audio/speech/{request_id}``: the outcome of a request."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from server.api.openapi import errors
from server.api.responses import Outcome
from server.errors import ApiError, shown
from server.services import ServicesOf

router = APIRouter()


@router.head("/v1/audio/speech/{request_id}", include_in_schema=False)
@router.get(
    "/v1/audio/speech/{request_id}",
    response_model=Outcome,
    response_model_exclude_unset=True,
    responses=errors(404, 503),
)
async def retrieve_outcome(request_id: str, request: Request, services: ServicesOf) -> dict[str, Any]:
    """Return the outcome of a speech request of this API key: while it runs, and for an hour after it ends."""
    owner = request.state.record.owner
    fields = services.outcomes.fields(request_id, owner) or await services.peers.outcome(request_id, owner)
    if fields is None:
        message = f"request '{shown(request_id)}' does not exist, or ended more than an hour ago"
        raise ApiError(message, status=404, param="request_id", code="request_not_found")
    return fields
