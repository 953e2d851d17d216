"""A server in this process, on real sockets, whose engine follows scripts. It can have listeners beside HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from server.app import create_app
from server.http.connection_table import ConnectionTable
from server.listeners.opening import Sockets, create_listeners, open_sockets
from server.settings import load_settings
from tests.support.scripted_engine import ScriptedEngine

TIMEOUT = 60.0


@dataclass
class ScriptedServer:
    """A running server. connections: those of the listeners beside HTTP."""

    engine: ScriptedEngine
    sockets: Sockets
    client: httpx.AsyncClient
    connections: ConnectionTable
    server: uvicorn.Server

    async def ready(self) -> dict[str, Any]:
        stats: dict[str, Any] = (await self.client.get("/ready")).json()
        return stats

    async def metric(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 while it has none."""
        families = text_string_to_metric_families((await self.client.get("/metrics")).text)
        samples = (sample for family in families for sample in family.samples)
        return next((each.value for each in samples if each.name == name and each.labels == labels), 0.0)

    async def until_cancelled(self, index: int = -1) -> None:
        """Wait until the engine was told to stop a request."""
        async with asyncio.timeout(TIMEOUT):
            while not self.engine.streams or not self.engine.streams[index].cancelled:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def scripted_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, engine: ScriptedEngine | None = None, **settings: Any
) -> AsyncIterator[ScriptedServer]:
    """Run a server with ``settings`` until the context ends."""
    engine = engine or ScriptedEngine()
    monkeypatch.setattr("server.app.EngineClient", lambda config: engine)
    flags = {"engine": {"model": "org/model"}, "voices": {"folder": str(folder)}, "port": 0, **settings}
    loaded = load_settings(flags=flags)
    sockets = open_sockets(loaded, protected="api_key" in settings)
    connections = ConnectionTable(loaded.limits.max_connections or 100, 1.0)
    app = create_app(loaded, listeners=create_listeners(loaded, sockets, connections))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve([sockets.http]))
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        port = sockets.http.getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT) as client:
            yield ScriptedServer(engine, sockets, client, connections, server)
    finally:
        server.should_exit = True
        await serving
