"""Middleware that limits the size and the arrival time of request bodies."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ApiError, failure_of
from server.http.body_budget import BodyBudget
from server.http.clients import client_of
from server.http.connections import too_slow


class BodyLimit:
    """Refuses a body whose Content-Length is too large, and any body that becomes too large or arrives too late.

    Args:
        app: the wrapped ASGI application.
        most: maximum bytes of one body.
        patience: seconds until the last byte of a body must arrive.
        budget: counts the bytes of all bodies. A body counts until its request ends, because the request keeps it in
            memory.
    """

    def __init__(self, app: ASGIApp, most: int, patience: float, budget: BodyBudget) -> None:
        self._app = app
        self._most = most
        self._patience = patience
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._most:
            refusal = self._refusal()
            scope["state"]["record"].failed(refusal)
            await failure_of(refusal).response()(scope, receive, send)
            return
        account = self._budget.account(client_of(scope))
        seen = 0
        deadline: float | None = asyncio.get_running_loop().time() + self._patience

        async def counted() -> Message:
            nonlocal seen, deadline
            message = await self._in_time(receive, deadline)
            seen += len(message.get("body", b""))
            if seen > self._most:
                raise self._refusal()
            account.resize(seen)
            if not message.get("more_body", False):
                deadline = None
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            account.close()

    async def _in_time(self, receive: Receive, deadline: float | None) -> Message:
        if deadline is None:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                return await receive()
        except TimeoutError:
            raise ApiError(too_slow(self._patience), status=408, code="request_timeout") from None

    def _refusal(self) -> ApiError:
        return ApiError(f"The body is larger than {self._most} bytes.", status=413, code="request_too_large")
