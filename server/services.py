"""The dependencies of the routes, created once at startup."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from engine.errors import EngineError
from server.errors import ApiError, shown
from server.http.body_budget import BodyBudget
from server.keys.usage import KeyUsage
from server.keys.valid_keys import Keys
from server.live.sessions import Sessions
from server.served_model import ServedModel
from server.settings import Settings
from server.synthesis.admission import Admission
from server.synthesis.admission_group import AdmissionGroup
from server.telemetry.metrics import Metrics
from server.telemetry.observers import RequestObservers
from server.telemetry.outcomes import Outcomes

MAX_VOICES_WAITING = 64
"""Maximum number of queued requests that create a voice; the engine encodes one recording at a time."""


@dataclass(frozen=True, slots=True)
class Services:
    """The shared objects of one server: settings, models, admission, sessions, threads and telemetry.

    models: the served models; the first one is the default.
    admission: the admissions of all models.
    aligner_threads: time the words of speech.
    keys: the valid API keys. If they have several owners, each owner has its own voices.
    created: Unix time of the server's start.
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
    outcomes: Outcomes
    metrics: Metrics
    observers: RequestObservers
    keys: Keys
    key_usage: KeyUsage
    created: int = field(default_factory=lambda: int(time.time()))

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


async def services_of(request: Request) -> Services:
    """Return the services of the application that handles ``request``."""
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(services_of)]
