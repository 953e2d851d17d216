"""A server in this event loop, with listeners beside HTTP, whose engine follows scripts."""

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
from tests.server.serving import NO_CERTIFICATES
from tests.support.scripted_engine import ScriptedEngine

TIMEOUT = 60.0


@dataclass
class ListeningServer:
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
        """The sum of a metric's values with these labels."""
        families = text_string_to_metric_families((await self.client.get("/metrics")).text)
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return sum(each.value for each in samples if labels.items() <= each.labels.items())

    async def until_metric(self, value: float, name: str, **labels: str) -> None:
        """Wait until a metric has this value."""
        async with asyncio.timeout(TIMEOUT):
            while await self.metric(name, **labels) != value:
                await asyncio.sleep(0.005)

    async def until_cancelled(self, index: int = -1) -> None:
        """Wait until the engine was told to stop a request."""
        async with asyncio.timeout(TIMEOUT):
            while not self.engine.streams or not self.engine.streams[index].cancelled:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def listening_server(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: ScriptedEngine | dict[str, ScriptedEngine] | None = None,
    **settings: Any,
) -> AsyncIterator[ListeningServer]:
    """Run a server with ``settings`` until the context ends. engine: one, or those of several models by name."""
    engines = engine if isinstance(engine, dict) else {"model": engine or ScriptedEngine()}
    monkeypatch.setattr("server.app.engine_pool", lambda settings, model, admission: engines[model.name])
    one = {} if "models" in settings else {"engine": {"model": "org/model"}}
    config = folder / "sonant.yaml"
    config.write_text("{}")
    loaded = load_settings(config, {**one, "voices": {"folder": str(folder)}, "port": 0, **settings})
    sockets = open_sockets(loaded, protected="api_key" in settings)
    share = settings.get("limits", {}).get("connection_share", 1.0)
    connections = ConnectionTable(loaded.limits.max_connections or 100, share)
    app = create_app(loaded, listeners=create_listeners(loaded, sockets, connections))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve([sockets.http]))
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        port = sockets.http.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT, verify=NO_CERTIFICATES) as client:
            yield ListeningServer(next(iter(engines.values())), sockets, client, connections, server)
    finally:
        server.should_exit = True
        await serving
