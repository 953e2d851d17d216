"""``/v1/models``: the served models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from engine.protocol.request import SAMPLE_RATE
from server.api.openapi import errors
from server.api.responses import AudioModelList, ModelCard, ModelList
from server.served_model import ServedModel
from server.services import ServicesOf
from server.startup import UNTRAINED

router = APIRouter(prefix="/v1")


@router.head("/models", include_in_schema=False)
@router.get("/models", response_model=ModelList, responses=errors(503))
async def list_models(services: ServicesOf) -> dict[str, Any]:
    """Return the served models, in the format of OpenAI's model list."""
    return {"object": "list", "data": [_card(model, services.created) for model in services.models]}


@router.head("/audio/models", include_in_schema=False)
@router.get("/audio/models", response_model=AudioModelList, responses=errors(503))
async def list_audio_models(services: ServicesOf) -> dict[str, Any]:
    """Return the names of the served models, for clients that look for models of speech here."""
    return {"models": [{"id": model.name, "name": model.name} for model in services.models]}


@router.head("/models/{name:path}", include_in_schema=False)
@router.get("/models/{name:path}", response_model=ModelCard, responses=errors(404, 503))
async def retrieve_model(name: str, services: ServicesOf) -> dict[str, Any]:
    """Return a served model, by its name or an alias."""
    return _card(services.model(name), services.created)


def _card(model: ServedModel, created: int) -> dict[str, Any]:
    info = model.info
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "sonant",
        "task_types": info.tasks,
        "languages": info.languages,
        "speakers": info.speakers,
        "task": "text-to-speech",
        "voices": [{"id": speaker, "name": speaker} for speaker in info.speakers],
        "embedding_width": info.embedding_width,
        "in_context": info.in_context,
        "sample_rate": SAMPLE_RATE,
        "trained": info.trained,
        "description": None if info.trained else UNTRAINED,
        "weights": info.weights,
        "real_time_factor": info.real_time_factor,
    }
