"""The dependencies of the routes, created once at startup."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.errors import EngineError
from server.errors import ApiError, shown
from server.guards.words import WordCheck
from server.http.body_budget import BodyBudget
from server.keys.usage import KeyUsage
from server.keys.valid_keys import Keys
from server.live.sessions import Sessions
from server.processes.peers import Peers
from server.served_model import ServedModel
from server.settings import Settings
from server.synthesis.admission import Admission
from server.synthesis.admission_group import AdmissionGroup
from server.telemetry.metrics import Metrics
from server.telemetry.observers import RequestObservers
from server.telemetry.outcomes import Outcomes

MAX_VOICES_WAITING = 64
"""Maximum number of queued requests that create a voice; the engine encodes one recording at a time."""


class UseCount:
    """Counts the requests that use the services of one configuration. Not thread-safe: for one event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._unused = asyncio.Event()
        self._unused.set()

    def begin(self) -> None:
        """Count a request."""
        self._count += 1
        self._unused.clear()

    def end(self) -> None:
        """Stop counting a request."""
        self._count -= 1
        if not self._count:
            self._unused.set()

    async def wait_unused(self) -> None:
        """Wait until no request is counted."""
        await self._unused.wait()


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that requests share: settings, models, admission, sessions, threads and telemetry.

    A reload makes new ones for the new configuration, with new ``settings``, ``models`` and ``use``. The other objects
    stay.

    models: the served models; the first one is the default.
    admission: the admissions of all models.
    aligner_threads: time the words of speech.
    word_check: counts the wrong words of speech, in the same threads.
    keys: the valid API keys. If they have several owners, each owner has its own voices.
    peers: the other HTTP processes of the server.
    created: Unix time of the server's start.
    use: counts the requests that use these services. Their engines run until it is zero.
    """

    settings: Settings
    models: tuple[ServedModel, ...]
    admission: AdmissionGroup
    voice_creation: Admission
    voice_listing: Admission
    sessions: Sessions
    bodies: BodyBudget
    audio_threads: Executor
    aligner_threads: Executor
    word_check: WordCheck
    outcomes: Outcomes
    metrics: Metrics
    observers: RequestObservers
    keys: Keys
    key_usage: KeyUsage
    peers: Peers = field(default_factory=Peers)
    created: int = field(default_factory=lambda: int(time.time()))
    use: UseCount = field(default_factory=UseCount)

    def model(self, name: str | None = None) -> ServedModel:
        """Return the model with that name or alias; the default model for None. Raises ApiError 404."""
        if name is None:
            return self.models[0]
        for matches in (ServedModel.has_exact_name, ServedModel.has_name):
            for model in self.models:
                if matches(model, name):
                    return model
        served = ", ".join(f"'{model.name}'" for model in self.models)
        message = (
            f"model '{shown(name)}' does not exist; this server serves {served}. To let clients use this name, add it "
            "to the setting model_aliases, or to the aliases of an entry of models"
        )
        raise ApiError(message, status=404, param="model", code="model_not_found")

    def cloning_model(self, name: str | None) -> ServedModel:
        """Return the model that makes a voice: the one called ``name``, or for None the first that clones voices.

        Without one it is the default model, which then says why. Raises ApiError 404, and EngineError if no engine of
        the model accepts requests.
        """
        model = self.model(name)
        if name is None:
            model = next((each for each in self.models if "Base" in each.info.tasks), model)
        model.engine.check_accepting()
        return model

    def models_with_width(self, width: int) -> list[str]:
        """Return the names of the models that can speak a stored voice with an embedding of this width."""
        return [model.name for model in self.models if model.info.embedding_width == width]

    def models_with_speaker(self, speaker: str) -> list[str]:
        """Return the names of the models that have a built-in speaker with this name, in any case of letters."""
        return [model.name for model in self.models if model.voices.speaker(speaker) is not None]

    def check_ready(self) -> None:
        """Raise ApiError while the server drains, and EngineError if a model was never ready, or none is healthy."""
        self.admission.check_open()
        failures = []
        for model in self.models:
            _ = model.info
            try:
                model.engine.check_health()
            except EngineError as error:
                failures.append(error)
        if len(failures) == len(self.models):
            raise failures[0]

    def check_accepting(self, models: Iterable[ServedModel] = ()) -> None:
        """Raise EngineError if no engine of ``models``, by default of all models, accepts requests."""
        models = list(models) or self.models
        if all(model.state() == "unavailable" for model in models):
            models[0].engine.check_accepting()


class CurrentServices:
    """The services of the configuration that is used now, for objects that outlive a reload.

    A request that uses an engine keeps the same services until it ends: see ``use``.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        self.draining: Sequence[Services] = ()
        """The services of earlier configurations that requests still use."""

    @contextmanager
    def use(self) -> Iterator[Services]:
        """Return the services for a request. Their engines run until the context ends."""
        services = self.services
        services.use.begin()
        try:
            yield services
        finally:
            services.use.end()


class RequestServices:
    """ASGI middleware that gives each HTTP request the services that are current when it arrives.

    WebSockets are not included: a live session may use other services for its next utterance.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        current: CurrentServices = scope["app"].state.current_services
        with current.use() as services:
            scope["state"]["services"] = services
            await self._app(scope, receive, send)


async def services_of(request: Request) -> Services:
    """Return the services that ``request`` uses."""
    services: Services = request.state.services
    return services


ServicesOf = Annotated[Services, Depends(services_of)]
