"""Closed connections are freed by reference counts. Full garbage collections would pause every stream."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from server.http.connection_table import ConnectionTable
from server.http.connections import http_protocol_class

_TIMEOUT_S = 60


@pytest.fixture
def no_automatic_collections() -> Iterator[None]:
    """Turn automatic garbage collection off."""
    gc.disable()
    yield
    gc.enable()


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the name of the connection's class."""
    connection = scope["state"]["connection"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": type(connection).__name__.encode()})


@pytest.mark.usefixtures("no_automatic_collections")
async def test_a_closed_connection_is_freed_without_a_garbage_collection() -> None:
    freed = asyncio.Event()

    class Observed(http_protocol_class(60.0, ConnectionTable(10, 1.0))):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            weakref.finalize(self, freed.set)

    server = uvicorn.Server(uvicorn.Config(_app, http=Observed, port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(_TIMEOUT_S):
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=_TIMEOUT_S) as client:
            assert (await client.get("/")).text == "Observed"
            assert not freed.is_set()
        await freed.wait()
        server.should_exit = True
        await serving
