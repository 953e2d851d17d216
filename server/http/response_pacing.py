"""Middleware that sends large response bodies in pieces, within a memory budget and at a minimum rate."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ApiError, ClientDisconnected, failure_of
from server.http.body_budget import SMALL_BODY_BYTES, BodyBudget
from server.http.clients import client_of

_MIN_BYTES_PER_SECOND = 32 * 1024


class _ClientTooSlow(Exception):
    """The client reads the response slower than the minimum rate."""


class ResponsePacing:
    """Sends bodies above 64 KiB with back-pressure. Without it, uvicorn would buffer the whole body in memory.

    It acts on responses with a Content-Length; streams have their own back-pressure. A body counts toward ``budget``
    until it is sent. A body that exceeds the budget is replaced by a 503.

    Args:
        app: the wrapped ASGI application.
        budget: counts the bytes of all request bodies and large responses.
        grace: seconds that a client may take in addition to what the minimum rate of 32 KiB per second allows.
    """

    def __init__(self, app: ASGIApp, budget: BodyBudget, grace: float) -> None:
        self._app, self._budget, self._grace = app, budget, grace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        account = self._budget.account(client_of(scope))
        clock = asyncio.get_running_loop().time
        deadline: float | None = None
        refused = False

        async def paced_send(message: Message) -> None:
            nonlocal deadline, refused
            if refused:
                return
            if message["type"] == "http.response.start" and (size := _length(message)) > SMALL_BODY_BYTES:
                try:
                    account.resize(size)
                except ApiError as error:
                    refused = True
                    scope["state"]["record"].failed(error)
                    await failure_of(error).response()(scope, receive, send)
                    return
                deadline = clock() + self._grace + size / _MIN_BYTES_PER_SECOND
            if deadline is None:
                await send(message)
                return
            try:
                async with asyncio.timeout_at(deadline):
                    for piece in _pieces(message):
                        await send(piece)
            except TimeoutError:
                raise _ClientTooSlow from None

        try:
            await self._app(scope, receive, paced_send)
        except _ClientTooSlow:
            scope["state"]["record"].failed(ClientDisconnected())
        finally:
            account.close()


def _length(start: Message) -> int:
    length = Headers(raw=list(start.get("headers", ()))).get("content-length", "")
    return int(length) if length.isdecimal() else 0


def _pieces(message: Message) -> list[Message]:
    """Return ``message``, divided into messages of at most 64 KiB if its body is larger."""
    body: bytes = message.get("body", b"")
    if len(body) <= SMALL_BODY_BYTES:
        return [message]
    view = memoryview(body)
    pieces = [bytes(view[start : start + SMALL_BODY_BYTES]) for start in range(0, len(body), SMALL_BODY_BYTES)]
    last = len(pieces) - 1
    return [
        {**message, "body": piece, "more_body": number < last or message.get("more_body", False)}
        for number, piece in enumerate(pieces)
    ]
