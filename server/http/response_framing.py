"""ASGI middleware for what uvicorn lacks: response trailers, and detectable ends of incomplete responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from server.http.connections import HttpConnection

TRAILERS = "http.response.trailers"
"""Name of the ASGI extension for trailers, the headers that follow a body, and type of its message."""


class ResponseFraming:
    """Offers trailers to clients that accept them, and resets the connection after an incomplete response.

    It must be the outermost middleware of an application that runs on ``HttpConnection``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection: HttpConnection = scope["state"]["connection"]
        cycle = connection.cycle
        if _accepts_trailers(scope):
            scope["extensions"] = {**scope.get("extensions", {}), TRAILERS: {}}
            send = _send_with_trailers(connection, send)
        try:
            await self._app(scope, receive, send)
        finally:
            if connection.cycle is cycle:  # otherwise the next request on the connection has begun
                connection.reset_if_incomplete()
            connection.update_idle()


def _send_with_trailers(connection: HttpConnection, send: Send) -> Send:
    """Return ``send`` with support for the ASGI trailers extension."""
    announced = False
    last: Message = {}

    async def send_with_trailers(message: Message) -> None:
        nonlocal announced, last
        if message["type"] == "http.response.start":
            announced = message.get("trailers", False)
        elif message["type"] == TRAILERS:
            connection.conn.trailers = list(message["headers"])
            message = last
        elif announced and not message.get("more_body", False):
            last = message
            return
        await send(message)

    return send_with_trailers


def _accepts_trailers(scope: Scope) -> bool:
    """Return whether the client accepts trailers (``TE: trailers``). Only a chunked response can have them."""
    if scope["http_version"] != "1.1":
        return False
    accepted = [value for name, value in scope["headers"] if name == b"te"]
    return any(each.strip().lower() == b"trailers" for value in accepted for each in value.split(b","))
