"""What every route works with, made once for the life of the server."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from engine.client import EngineClient
from server.admission import Admission
from server.journal import Journal
from server.live.sessions import Sessions
from server.metrics import Metrics
from server.outcomes import Outcomes
from server.references.library import ReferenceLibrary
from server.settings import Settings

MAX_VOICES_WAITING = 64
"""Recordings that wait to become voices; the engine encodes one at a time."""


@dataclass(frozen=True, slots=True)
class Services:
    """The settings, the engine, the seats and the live sessions of one server; its threads; what it remembers."""

    settings: Settings
    engine: EngineClient
    admission: Admission
    voice_making: Admission
    voice_listing: Admission
    sessions: Sessions
    audio_threads: Executor
    outcomes: Outcomes
    metrics: Metrics
    journal: Journal
    references: ReferenceLibrary
    has_owners: bool = False
    """Whether several keys are configured, each of which then has voices of its own."""
    created: int = field(default_factory=lambda: int(time.time()))


async def services_of(request: Request) -> Services:
    """Those of the server that got ``request``."""
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(services_of)]
