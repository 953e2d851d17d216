"""What every route works with, made once for the life of the server."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from engine.client import EngineClient
from server.admission import Admission
from server.errors import ApiError, ClientLeft
from server.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The settings, the engine and the seats of one server."""

    settings: Settings
    engine: EngineClient
    admission: Admission
    created: int = field(default_factory=lambda: int(time.time()))


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _json_object(request: Request) -> dict[str, object]:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = f"The body must be application/json, not '{kind}'."
        raise ApiError(message, status=415, code="unsupported_media_type")
    try:
        fields = from_json(await request.body(), allow_inf_nan=False)
    except ClientDisconnect:
        raise ClientLeft from None
    except ValueError as error:
        raise ApiError(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(fields, dict):
        raise ApiError("The body must be a JSON object.", code="invalid_json")
    return fields


ServicesOf = Annotated[Services, Depends(_services)]
JsonObject = Annotated[dict[str, object], Depends(_json_object)]
"""The body as a JSON object. Raises ApiError 415 or 400."""
