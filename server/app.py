"""The FastAPI application: lifespan, middleware, routes."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from engine.errors import EngineError
from engine.pool.member import MakeClient, PoolMember
from engine.pool.pool import EnginePool
from engine.system.cores import available_cores
from engine.system.process import freeze_gc
from server.alignment.worker import aligner_threads
from server.api import batch, elevenlabs, kokoro, live, models, operations, speech, static_pages, unsupported, voices
from server.api import outcomes as outcomes_api
from server.api.openapi import DescribedApp, allowed_methods, errors
from server.errors import ApiError, ClientDisconnected, failure_of, shown
from server.guards.words import WordCheck
from server.http.body_budget import BodyBudget
from server.http.body_limit import BodyLimit
from server.http.cross_origin import CrossOrigin
from server.http.garbage_collection import collect_unnoticed
from server.http.keys import KeyCheck
from server.http.paths import SPEECH, CanonicalPaths
from server.http.response_pacing import ResponsePacing
from server.http.same_origin import SameOriginOnly
from server.keys.usage import KeyUsage
from server.keys.valid_keys import follow_key_file, load_keys
from server.listeners.listener import Listener
from server.live.sessions import Sessions
from server.model_settings import ModelSettings
from server.processes.additional import MainPeer
from server.processes.main import AdditionalPeers
from server.processes.peers import ONLY_PROCESS, Peers, Role
from server.references.decode import Decoder
from server.reload.reloader import Reload, Reloader
from server.reload.requests import reload_requests
from server.served_model import max_running, model_admission, served_model
from server.services import MAX_VOICES_WAITING, CurrentServices, RequestServices, Services
from server.settings import Settings, SettingsError
from server.startup import START_SECONDS, UNTRAINED
from server.synthesis.admission import Admission
from server.synthesis.admission_group import AdmissionGroup
from server.telemetry.metrics import Metrics
from server.telemetry.observers import RequestObservers
from server.telemetry.outcomes import Outcomes
from server.telemetry.request_log import RequestLog
from server.text import frontend
from server.version import version
from server.voices.object_cache import open_bucket
from server.voices.storage_threads import StorageThreads

if TYPE_CHECKING:
    from server.telemetry.tracing import Tracing

log = logging.getLogger("sonant")


def create_app(
    settings: Settings,
    on_engine_ready: Callable[[], None] = lambda: None,
    on_engine_failure: Callable[[], None] = lambda: None,
    listeners: Sequence[Listener] = (),
    reload: Reload | None = None,
    role: Role = ONLY_PROCESS,
) -> FastAPI:
    """Return the application for ``settings``.

    Args:
        settings: the settings of the server.
        on_engine_ready: called when the engine is ready for the first time.
        on_engine_failure: called when the engine cannot start at all.
        listeners: started and closed with the application.
        reload: how the configuration is reloaded; None for a server that cannot reload it.
        role: which of the HTTP processes of the server this is.

    Raises SettingsError or OSError when the API keys cannot be read, and SettingsError when a package that the
    settings need is not installed.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        main = None
        if role.main is not None:
            main = MainPeer(role.main, outcomes, key_usage, metrics.of_process, role.on_main_lost)
        make_pool = engine_pool if main is None else partial(engine_pool, make_client=main.client)
        pools = {model.name: make_pool(settings, model, admissions[model.name]) for model in settings.all_models}
        additional = None
        if role.arrivals is not None:
            engines = [engine for pool in pools.values() for engine in pool.engines.values()]
            page = partial(operations.metrics_page, app.state)
            additional = AdditionalPeers(role.arrivals, engines, outcomes, key_usage, page, settings.http_processes - 1)
        audio_threads, word_threads = ThreadPoolExecutor(available_cores(), "audio"), aligner_threads()
        decoder, storage_threads = Decoder(settings.limits), StorageThreads()
        served = [
            served_model(
                settings,
                model,
                pools[model.name],
                decoder.decode,
                admissions[model.name],
                storage_threads,
                several_keys=lambda: keys.several,
            )
            for model in settings.all_models
        ]
        services = Services(
            settings,
            tuple(served),
            admission,
            voice_creation,
            voice_listing,
            sessions,
            bodies,
            audio_threads,
            word_threads,
            WordCheck(word_threads),
            outcomes,
            metrics,
            observers,
            keys,
            key_usage,
            main or additional or Peers(),
        )
        app.state.current_services = current = CurrentServices(services)
        for pool in pools.values():
            await pool.start()
        key_file = asyncio.create_task(follow_key_file(keys, lambda: current.services.settings))
        collecting = asyncio.create_task(collect_unnoticed(outcomes.audio_left))
        startup = asyncio.create_task(
            _report_startup(services, on_engine_ready, on_engine_failure, quiet=main is not None)
        )
        reloader = Reloader(
            current,
            pools,
            decoder,
            storage_threads,
            startup,
            make_pool=engine_pool,
            how=reload or Reload(lambda: settings),
        )
        try:
            async with AsyncExitStack() as started:
                for listener in listeners:
                    await listener.start(current)
                    started.push_async_callback(listener.close)
                if reload is not None:
                    await started.enter_async_context(reload_requests(reloader))
                yield
        finally:
            if additional is not None:
                additional.close()
            startup.cancel()
            key_file.cancel()
            collecting.cancel()
            storage_threads.close()
            await decoder.close()
            await reloader.close()
            if main is not None:
                main.close()
            audio_threads.shutdown()
            word_threads.shutdown(cancel_futures=True)
            for spans in tracing:
                await asyncio.to_thread(spans.close)

    if settings.voices.url is not None:
        open_bucket(settings.voices.url)  # fails at startup if it cannot be used
    keys = load_keys(settings)
    key_usage = KeyUsage(keys)
    limits = settings.limits
    admissions = {model.name: model_admission(settings, model) for model in settings.all_models}
    admission = AdmissionGroup([*admissions.values()])
    voice_creation = Admission(1, MAX_VOICES_WAITING, share=limits.client_share)
    voice_listing = Admission(1, MAX_VOICES_WAITING, share=limits.client_share)
    outcomes = Outcomes(limits.max_outcomes, share=limits.client_share)
    sessions = Sessions(limits.max_live_sessions, limits.client_share)
    bodies = BodyBudget(limits.max_bodies_bytes, limits.client_share)
    metrics = Metrics(admissions, sessions, bodies)
    tracing = _tracing(settings)
    observers = RequestObservers((metrics, outcomes, key_usage, *tracing))
    app = DescribedApp(
        title="Sonant", version=version(), lifespan=lifespan, redirect_slashes=False, docs_url=None, redoc_url=None
    )
    app.has_keys = bool(keys)
    app.add_middleware(RequestServices)
    app.add_middleware(ResponsePacing, budget=bodies, grace=limits.stalled_seconds)
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.limits.max_body_bytes,
        timeout=settings.limits.request_seconds,
        budget=bodies,
    )
    if keys:
        app.add_middleware(KeyCheck, keys=keys, open_lists=settings.open_lists)
    elif settings.cors.any_page and not settings.cors.allow_any_page:
        raise SettingsError(
            "cors.allow_origins: every web page may use this server, which has no API key. Set an API key "
            "(SONANT_API_KEY), list the origins, or set cors.allow_any_page"
        )
    origins = settings.cors.pattern
    app.add_middleware(CrossOrigin, origins=origins)
    if not keys:
        app.add_middleware(SameOriginOnly, names=settings.own_names, origins=origins)
    app.add_middleware(CanonicalPaths)
    app.add_middleware(RequestLog, observers=observers)
    app.state.admission, app.state.sessions, app.state.bodies = admission, sessions, bodies
    for kind in (ApiError, ClientDisconnected, EngineError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _error_response)
    for routes in (
        speech,
        batch,
        live,
        voices,
        models,
        operations,
        outcomes_api,
        kokoro,
        elevenlabs,
        static_pages,
        unsupported,
    ):
        app.include_router(routes.router, responses=errors(401, 403, 500))
    app.router.routes.insert(0, speech.direct)
    if settings.get_speech:
        app.router.routes.insert(1, speech.by_url)
    return app


def _tracing(settings: Settings) -> list[Tracing]:
    """Return one Tracing if ``settings.tracing`` is set, else none. Raises SettingsError without OpenTelemetry."""
    if not settings.tracing:
        return []
    try:
        from server.telemetry.tracing import Tracing
    except ImportError:
        raise SettingsError("tracing: OpenTelemetry is not installed; pip install 'sonant[otel]'") from None
    return [Tracing()]


async def _error_response(request: Request, error: Exception) -> JSONResponse:
    request.state.record.failed(error)
    if isinstance(error, HTTPException) and error.status_code == 404:
        path = shown(request.url.path)
        error.detail = f"nothing is served at '{path}'; speech is POST {SPEECH}, and /docs lists all addresses"
    if isinstance(error, HTTPException) and error.status_code == 405:
        error.headers = {"Allow": allowed_methods(request)}
        if request.url.path == SPEECH and request.method == "GET":
            error.detail = "Method Not Allowed: send POST, or let this server accept GET (get_speech: true)"
    return failure_of(error).response()


def engine_pool(
    settings: Settings,
    model: ModelSettings,
    admission: Admission,
    kept: list[PoolMember] | None = None,
    names: Iterator[int] | None = None,
    make_client: MakeClient | None = None,
) -> EnginePool:
    """Return the engines of ``model``. They adapt ``admission`` to the number of engines that accept requests.

    kept, names, make_client: see ``EnginePool``.
    """
    running = max_running(settings, model)
    return EnginePool(
        model.engines,
        load_seconds=settings.limits.first_sound_seconds,
        restart_seconds=settings.limits.restart_wait_seconds,
        keep_alive=model.keep_alive,
        on_capacity=lambda fraction: admission.resize(math.ceil(running * fraction)),
        model=model.name,
        kept=kept,
        names=names,
        make_client=make_client,
    )


async def _report_startup(
    services: Services, on_ready: Callable[[], None], on_failure: Callable[[], None], *, quiet: bool
) -> None:
    """Wait until all engines have loaded, and report the result. quiet: another process writes it to the log."""
    await asyncio.to_thread(frontend.warm_up)
    for model in services.models:
        try:
            await model.engine.wait_ready(START_SECONDS)
        except (EngineError, TimeoutError) as error:
            reason = str(error) or f"not ready within {START_SECONDS:g} s"
            log.log(
                logging.DEBUG if quiet else logging.ERROR, "the engine of %s could not start: %s", model.name, reason
            )
            on_failure()
            return
        log.log(logging.DEBUG if quiet else logging.INFO, "%s is ready on %s", model.name, model.info.device)
        if not (model.info.trained or quiet):
            log.warning("%s: %s", model.name, UNTRAINED)
    await services.peers.started()
    on_ready()
    freeze_gc()
