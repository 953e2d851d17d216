"""A server with a scripted engine, in a thread of the test process: it starts in a moment, and tests see the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from engine.protocol.request import SpeechRequest
from server.app import create_app
from server.settings import load_settings
from tests.server.serving import NO_CERTIFICATES, SPEECH, TIMEOUT
from tests.support.scripted_engine import ScriptedEngine

TEXT = "The bus was late again, so I walked to the office in the rain."


@dataclass
class ScriptedServer:
    """A server on a socket, and its engine."""

    engine: ScriptedEngine
    client: httpx.Client

    @property
    def requested(self) -> SpeechRequest:
        """What the engine was asked for last."""
        return self.engine.streams[-1].request

    def post(self, **fields: Any) -> httpx.Response:
        """The response to a speech request."""
        return self.client.post(SPEECH, json={"input": TEXT, "response_format": "pcm", "seed": 7, **fields})

    def speak(self, **fields: Any) -> httpx.Response:
        """The response to a speech request, which succeeds."""
        response = self.post(**fields)
        assert response.status_code == 200, response.text
        return response


@contextmanager
def scripted_server(folder: Path, engine: ScriptedEngine | None = None, **settings: Any) -> Iterator[ScriptedServer]:
    """Run a server with these settings."""
    engine = engine or ScriptedEngine()
    flags = {"engine": {"model": "org/model"}, "voices": {"folder": str(folder)}, **settings}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.app.engine_pool", lambda *_: engine)
        app = create_app(load_settings(flags=flags))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        started = threading.Event()
        server.startup = _announced(server.startup, started)  # type: ignore[method-assign]
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            assert started.wait(TIMEOUT)
            port = server.servers[0].sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, timeout=TIMEOUT, verify=NO_CERTIFICATES) as client:
                yield ScriptedServer(engine, client)
        finally:
            server.should_exit = True
            thread.join(TIMEOUT)


def _announced(startup: Any, started: threading.Event) -> Any:
    async def announced(*arguments: Any, **options: Any) -> None:
        await startup(*arguments, **options)
        started.set()

    return announced
