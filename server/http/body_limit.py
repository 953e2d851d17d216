"""Middleware that limits the size and the arrival time of request bodies."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ApiError, failure_of
from server.http.body_budget import BodyBudget
from server.http.clients import client_of
from server.http.connections import request_timeout_error


class BodyLimit:
    """Refuses a body whose Content-Length is too large, and any body that becomes too large or arrives too late.

    Args:
        app: the wrapped ASGI application.
        max_bytes: maximum bytes of one body.
        timeout: seconds until the last byte of a body must arrive.
        budget: counts the bytes of all bodies. A body counts until its request ends, because the request keeps it in
            memory.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout: float, budget: BodyBudget) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            error = self._too_large(f"{length} bytes")
            scope["state"]["record"].failed(error)
            await failure_of(error).response()(scope, receive, send)
            return
        account = self._budget.account(client_of(scope))
        received = 0
        deadline: float | None = asyncio.get_running_loop().time() + self._timeout

        async def limited_receive() -> Message:
            nonlocal received, deadline
            message = await self._receive_before(deadline, receive)
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise self._too_large(f"more than {self._max_bytes} bytes")
            account.resize(received)
            if not message.get("more_body", False):
                deadline = None
            return message

        try:
            await self._app(scope, limited_receive, send)
        finally:
            account.close()

    async def _receive_before(self, deadline: float | None, receive: Receive) -> Message:
        if deadline is None:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                return await receive()
        except TimeoutError:
            raise request_timeout_error(self._timeout) from None

    def _too_large(self, size: str) -> ApiError:
        message = f"The request body must have at most {self._max_bytes} bytes (limits.max_body_bytes), got {size}."
        return ApiError(message, status=413, code="request_too_large")
