"""A reverse proxy that records what clients send, and how the server answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

_HOP = frozenset({"host", "content-length", "connection", "transfer-encoding"})
_TIMEOUT = 600.0
_STOP_SECONDS = 30.0


@dataclass
class Exchange:
    """A request, and the status of its response. error: the body of a response that is an error."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int = 0
    error: str = ""


class Recorder:
    """The proxy in a thread of its own, at ``address``."""

    def __init__(self, server: str) -> None:
        self.exchanges: list[Exchange] = []
        self._server = server
        self._socket = socket.create_server(("127.0.0.1", 0))  # takes connections before the proxy runs
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        routes = [Route("/{path:path}", self._forward, methods=["GET", "HEAD", "POST"])]
        self._proxy = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
        self._thread = threading.Thread(target=self._proxy.run, args=([self._socket],), daemon=True)

    def take(self) -> list[Exchange]:
        """Return the exchanges since the last call."""
        taken, self.exchanges = self.exchanges, []
        return taken

    async def _forward(self, request: Request) -> Response:
        raw = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        exchange = Exchange(request.method, request.url.path, headers, _parsed(raw))
        self.exchanges.append(exchange)
        client = httpx.AsyncClient(base_url=self._server, timeout=_TIMEOUT)
        forwarded = client.build_request(request.method, request.url.path, headers=headers, content=raw)
        response = await client.send(forwarded, stream=True)
        exchange.status = response.status_code
        kept = {name: value for name, value in response.headers.items() if name not in _HOP}

        async def body() -> AsyncIterator[bytes]:
            try:
                async for chunk in response.aiter_raw():
                    if exchange.status >= 400:
                        exchange.error += chunk.decode(errors="replace")
                    yield chunk
            finally:
                await response.aclose()
                await client.aclose()

        return StreamingResponse(body(), response.status_code, kept)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._socket.close()


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")
