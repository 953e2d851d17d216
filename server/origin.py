"""Pages of other sites are kept from a server that asks for no key."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import ApiError, failure_of

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


class OwnPagesOnly:
    """Refuses what a browser sends for a page from elsewhere: a WebSocket, or a form, asks nobody before it does.

    names: this server's hosts, beside its addresses, this machine's name and localhost. Any other name could be of
    somebody who gave it this server's address after the page was loaded.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in ("localhost", socket.gethostname(), *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Programs send no Origin, and pass."""
        if not _asks(scope) or not self._foreign(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        message = "Pages of other sites may not use this server; own_names is the setting of its own names."
        refusal = ApiError(message, status=403, code="foreign_origin")
        scope["state"]["record"].failed(refusal)
        await failure_of(refusal).response()(scope, receive, send)

    def _foreign(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None:
            return False
        try:
            url = urlsplit(origin)
            return url.netloc.lower() != headers.get("host", "").lower() or not self._is_own(url.hostname or "")
        except ValueError:
            return True

    def _is_own(self, name: str) -> bool:
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def _asks(scope: Scope) -> bool:
    return scope["type"] == "websocket" or (scope["type"] == "http" and scope["method"] not in _HARMLESS)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
