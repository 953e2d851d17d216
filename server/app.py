"""The application: its life, its middleware, its routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from engine.client import EngineClient
from engine.errors import EngineError
from server.admission import Admission
from server.body_limit import BodyLimit
from server.errors import ApiError, ClientLeft, failure_of
from server.openapi import ERRORS
from server.request_log import RequestLog
from server.routes import models, operations, speech
from server.services import Services
from server.settings import Settings
from server.startup import START_SECONDS, UNTRAINED
from server.version import version

log = logging.getLogger("sonant")


def create_app(settings: Settings, on_engine_failure: Callable[[], None] = lambda: None) -> FastAPI:
    """The server for ``settings``. ``on_engine_failure`` is called when the engine cannot start at all."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = EngineClient(settings.engine)
        app.state.services = Services(settings, engine, Admission(settings.limits.max_requests))
        await engine.start()
        greeting = asyncio.create_task(_greet(engine, settings, on_engine_failure))
        try:
            yield
        finally:
            greeting.cancel()
            await engine.close()

    app = FastAPI(title="Sonant", version=version(), lifespan=lifespan, redirect_slashes=False)
    app.add_middleware(BodyLimit, most=settings.limits.max_body_bytes)
    app.add_middleware(RequestLog)
    for kind in (ApiError, ClientLeft, EngineError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)
    for routes in (speech, models, operations):
        app.include_router(routes.router, responses=ERRORS)
    return app


async def _answer(request: Request, error: Exception) -> JSONResponse:
    request.state.record.failed(error)
    return failure_of(error).response()


async def _greet(engine: EngineClient, settings: Settings, on_failure: Callable[[], None]) -> None:
    try:
        await engine.wait_ready(START_SECONDS)
    except (EngineError, TimeoutError) as error:
        log.error("the engine could not start: %s", str(error) or "it took too long")
        on_failure()
        return
    log.info("%s is ready on %s", settings.model_name, engine.info.device)
    if not engine.info.trained:
        log.warning("%s: %s", settings.model_name, UNTRAINED)
