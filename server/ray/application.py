"""The Ray Serve application. A replica is a whole server: the FastAPI application with its engine processes.

    serve run server.ray.application:build config=pocket

An engine in an actor of its own, behind an HTTP actor, would cost twenty times the CPU per chunk.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, Json
from ray import serve
from ray.serve import Application

from engine.errors import EngineError
from engine.system.logs import set_up_logging
from server.app import create_app
from server.errors import ApiError
from server.keys.valid_keys import load_keys
from server.ray.replica_app import ReplicaApp
from server.services import Services
from server.settings import Settings, SettingsError, load_settings
from server.startup import START_SECONDS

MAX_ONGOING_REQUESTS = 10_000
"""More than a replica can have: its own queue refuses requests (``limits.max_waiting``). With Ray's default of 5,
health checks would wait behind streams."""
DRAIN_SECONDS = 600.0
"""How long Ray waits for the streams of a replica that it stops."""


class Arguments(BaseModel):
    """The arguments of the application: ``args`` in Ray's configuration, ``name=value`` for ``serve run``.

    config: a YAML file of settings that every node has, or the name of an included one; None: the pocket checkpoint's.
    settings: settings that override those of the file, nested like them; as JSON on the command line.
    """

    model_config = ConfigDict(extra="forbid")

    config: str | None = None
    settings: dict[str, Any] | Json[dict[str, Any]] = Field(default_factory=dict)


def build(arguments: dict[str, Any]) -> Application:
    """Return the application. Ray calls it with ``arguments``; raises ValidationError if they are not ``Arguments``."""
    valid = Arguments.model_validate(arguments)
    if valid.config is not None and (file := Path(valid.config)).is_file():
        valid.config = str(file.resolve())  # replicas have another working directory
    return Sonant.bind(valid.config, valid.settings)  # type: ignore[attr-defined]


@serve.deployment(
    max_ongoing_requests=MAX_ONGOING_REQUESTS,
    graceful_shutdown_timeout_s=DRAIN_SECONDS,
    graceful_shutdown_wait_loop_s=1,
    health_check_period_s=2,
    health_check_timeout_s=30,
)
@serve.ingress()
class Sonant:
    """One replica. Ray calls its methods in the event loop that runs the application."""

    def __init__(self, config: str | None, settings: dict[str, Any]) -> None:
        self._settings = replica_settings(config, settings)
        self._restart_seconds = max(
            engine.load_seconds for model in self._settings.all_models for engine in model.engines
        )
        self._app: FastAPI | None = None
        self._ready_at: float | None = None

    def __serve_build_asgi_app__(self) -> ReplicaApp:
        """Return the application. Ray then runs its lifespan, which starts the engine processes."""
        check_event_loop()
        set_up_logging(self._settings.log_format)
        self._app = create_app(self._settings)
        return ReplicaApp(self._app, serve.get_replica_context().replica_id.unique_id)

    async def check_health(self) -> None:
        """Raise RuntimeError if Ray should replace this replica. Answers from what is known, except the first time.

        The first call belongs to the start of the replica: it returns when all models are ready, and only then the
        replica gets requests. Later, the server restarts a lost engine itself. Until it is ready it answers 503, which
        the load balancer sends to another replica. So an engine is a failure of the replica only if it is not back
        after ``engine.load_seconds``.
        """
        services = self._services
        try:
            if self._ready_at is None:
                for model in services.models:
                    await model.engine.wait_ready(START_SECONDS)
            services.check_ready()
        except (ApiError, EngineError, TimeoutError) as error:
            if self._ready_at is None or time.monotonic() - self._ready_at > self._restart_seconds:
                raise RuntimeError(f"the engine is not ready: {error or type(error).__name__}") from None
        else:
            self._ready_at = time.monotonic()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return what the autoscaling policy needs: running and queued requests, and how many can run at once."""
        admission = self._services.admission
        return {"requests": float(admission.ticket_count), "seats": float(admission.max_running)}

    @property
    def _services(self) -> Services:
        assert self._app is not None
        services: Services = self._app.state.current_services.services
        return services


def replica_settings(config: str | None, settings: dict[str, Any]) -> Settings:
    """Return the settings of a replica. Raises SettingsError if they are invalid, or not possible in a replica."""
    loaded = load_settings(None if config is None else Path(config), settings)
    for name, port in (("grpc.port", loaded.grpc.port), ("wyoming.port", loaded.wyoming.port)):
        if port is not None:
            raise SettingsError(f"{name}: a replica of Ray Serve has only the HTTP listener, got {port}: remove it")
    if loaded.http_processes > 1:
        raise SettingsError(f"http_processes: a replica of Ray Serve is one process, got {loaded.http_processes}")
    if not (load_keys(loaded) or loaded.allow_unauthenticated):
        raise SettingsError(
            "Ray Serve listens on all addresses of its nodes, and the server has no API key: set keys_file or "
            "SONANT_API_KEY, or allow requests without a key with allow_unauthenticated: true"
        )
    return loaded


def check_event_loop() -> None:
    """Raise SettingsError if the event loop is uvloop, which cannot start processes in a process group of their own."""
    if type(asyncio.get_running_loop()).__module__.partition(".")[0] == "uvloop":
        raise SettingsError(
            "the event loop is uvloop, with which recordings cannot be decoded: set RAY_USE_UVLOOP=0 in the "
            "environment of every node before `ray start` (deploy/ray/ray.env)"
        )
