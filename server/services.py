"""What every route works with, made once for the life of the server."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from engine.client import EngineClient
from server.admission import Admission
from server.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The settings, the engine and the seats of one server."""

    settings: Settings
    engine: EngineClient
    admission: Admission
    created: int = field(default_factory=lambda: int(time.time()))


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(_services)]
