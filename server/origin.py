"""Pages of other sites are kept from a server that asks for no key."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import ApiError, failure_of

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


class OwnPagesOnly:
    """Refuses what a browser sends for a page from elsewhere: a WebSocket, or a form, asks nobody before it does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Programs send no Origin, and pass."""
        if not _asks(scope) or not _foreign(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        refusal = ApiError("Pages of other sites may not use this server.", status=403, code="foreign_origin")
        scope["state"]["record"].failed(refusal)
        await failure_of(refusal).response()(scope, receive, send)


def _asks(scope: Scope) -> bool:
    return scope["type"] == "websocket" or (scope["type"] == "http" and scope["method"] not in _HARMLESS)


def _foreign(headers: Headers) -> bool:
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
