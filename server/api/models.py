"""``/v1/models``: the served model."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from engine.protocol.request import SAMPLE_RATE
from server.api.openapi import errors
from server.api.responses import ModelCard, ModelList
from server.errors import ApiError, shown
from server.services import Services, ServicesOf
from server.settings import Settings

router = APIRouter(prefix="/v1/models")


def check_model(name: str | None, settings: Settings) -> None:
    """Accept any name of the served model, or None. Raises ApiError 404 ``model_not_found`` for another name."""
    if name is not None and name not in {settings.model_name, settings.engine.model, *settings.model_aliases}:
        message = f"There is no model '{shown(name)}'; this server speaks with '{settings.model_name}'."
        raise ApiError(message, status=404, param="model", code="model_not_found")


@router.head("", include_in_schema=False)
@router.get("", response_model=ModelList, responses=errors(503))
async def list_models(services: ServicesOf) -> dict[str, Any]:
    """Return the served model, in the format of OpenAI's model list."""
    return {"object": "list", "data": [_card(services)]}


@router.head("/{name:path}", include_in_schema=False)
@router.get("/{name:path}", response_model=ModelCard, responses=errors(404, 503))
async def retrieve_model(name: str, services: ServicesOf) -> dict[str, Any]:
    """Return the served model, by its name or an alias."""
    check_model(name, services.settings)
    return _card(services)


def _card(services: Services) -> dict[str, Any]:
    info = services.engine.info
    return {
        "id": services.settings.model_name,
        "object": "model",
        "created": services.created,
        "owned_by": "sonant",
        "task_types": info.tasks,
        "languages": info.languages,
        "speakers": info.speakers,
        "embedding_width": info.embedding_width,
        "in_context": info.in_context,
        "sample_rate": SAMPLE_RATE,
        "trained": info.trained,
        "description": None if info.trained else "untrained random weights: what it says is noise",
    }
