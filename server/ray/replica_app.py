"""ASGI wrapper for the application in a replica: what Ray Serve does differently from uvicorn."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

REPLICA_HEADER = "X-Sonant-Replica"
"""Response header with the id of the replica that handled the request."""

_REQUEST_ID = b"x-request-id"
_END_SECONDS = 5.0
"""How long a request may take to end after its client has disconnected. Then it is cancelled."""
_DISCONNECTS: dict[str, Message] = {
    "http": {"type": "http.disconnect"},
    "websocket": {"type": "websocket.disconnect", "code": 1006},
}


class ReplicaApp:
    """The application ``app`` in the replica with the id ``replica``.

    - When a client disconnects, Ray cancels the task of its request. To the application a cancelled task means that
      the server stops, so it gets a disconnect message instead.
    - Ray adds ``X-Request-Id`` to every HTTP response. The application's own header would be a second one.
    - Responses name the replica, because only it knows the outcome of the request.
    """

    def __init__(self, app: ASGIApp, replica: str) -> None:
        self._app = app
        self._replica = replica.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        disconnected = asyncio.Event()
        receive_message = _with_disconnect(receive, disconnected, _DISCONNECTS[scope["type"]])
        request = asyncio.ensure_future(self._app(scope, receive_message, self._with_headers(scope, send)))
        try:
            await asyncio.shield(request)
        except asyncio.CancelledError:
            if not request.cancelled():
                disconnected.set()
                await _end(request)
            raise

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        """Return ``send`` that names the replica, and leaves out the request id that Ray will add."""
        given = next((value for name, value in scope["headers"] if name == _REQUEST_ID), None)
        replica = (REPLICA_HEADER.lower().encode(), self._replica)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [each for each in message.get("headers", ()) if tuple(each) != (_REQUEST_ID, given)]
                message["headers"] = [*kept, replica]
            elif message["type"] == "websocket.accept":
                message["headers"] = [*message.get("headers", ()), replica]
            await send(message)

        return send_with_headers


def _with_disconnect(receive: Receive, disconnected: asyncio.Event, disconnect: Message) -> Receive:
    """Return ``receive`` that returns ``disconnect`` as soon as ``disconnected`` is set."""

    async def receive_message() -> Message:
        message = asyncio.ensure_future(receive())
        gone = asyncio.ensure_future(disconnected.wait())
        try:
            await asyncio.wait({message, gone}, return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() and not gone.done() else disconnect
        finally:
            message.cancel()
            gone.cancel()

    return receive_message


async def _end(request: asyncio.Future[None]) -> None:
    """Wait until ``request`` has ended, and cancel it after a timeout. Its result has no recipient any more."""
    try:
        await asyncio.wait({request}, timeout=_END_SECONDS)
    finally:
        request.cancel()
    if request.done() and not request.cancelled():
        request.exception()  # otherwise asyncio would log that it was never retrieved
