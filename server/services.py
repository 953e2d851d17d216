"""The dependencies of the routes, created once at startup."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from engine.client.client import EngineClient
from server.live.sessions import Sessions
from server.references.library import ReferenceLibrary
from server.settings import Settings
from server.synthesis.admission import Admission
from server.telemetry.metrics import Metrics
from server.telemetry.observers import RequestObservers
from server.telemetry.outcomes import Outcomes

MAX_VOICES_WAITING = 64
"""Maximum number of queued requests that create a voice; the engine encodes one recording at a time."""


@dataclass(frozen=True, slots=True)
class Services:
    """The shared objects of one server: settings, engine, admission, sessions, threads and telemetry."""

    settings: Settings
    engine: EngineClient
    admission: Admission
    voice_making: Admission
    voice_listing: Admission
    sessions: Sessions
    audio_threads: Executor
    outcomes: Outcomes
    metrics: Metrics
    journal: RequestObservers
    references: ReferenceLibrary
    has_owners: bool = False
    """Whether several API keys are configured; each key then has its own voices."""
    created: int = field(default_factory=lambda: int(time.time()))


async def services_of(request: Request) -> Services:
    """Return the services of the application that handles ``request``."""
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(services_of)]
