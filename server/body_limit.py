"""No request body is read beyond its bound."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ApiError, failure_of


class BodyLimit:
    """Refuses a body by its Content-Length, and one that comes in chunks once it has grown too large."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

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
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                raise self._refusal()
            return message

        await self._app(scope, counted, send)

    def _refusal(self) -> ApiError:
        return ApiError(f"The body is larger than {self._most} bytes.", status=413, code="request_too_large")
