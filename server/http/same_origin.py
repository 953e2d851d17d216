"""Protects a server without API keys from web pages of other sites: DNS rebinding, cross-site requests."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import ApiError, failure_of, shown
from server.http.cross_origin import foreign_origin_error, is_preflight
from server.http.paths import SPEECH

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(?:\[(?P<v6>[^\s\[\]]+)\]|(?P<name>[^\s:/?#@\[\]\\]+))(?::\d*)?")


class SameOriginOnly:
    """Middleware that refuses requests that a browser sends for a page of another site.

    It checks Host on every request, because of DNS rebinding: a page whose host name is changed to point at this
    server after it was loaded can read every response. It checks Origin on WebSocket handshakes and on unsafe methods,
    because browsers send handshakes and forms of any page without a preflight request. GET of speech counts as unsafe.

    Args:
        app: the wrapped ASGI application.
        names: host names of this server, in addition to IP addresses, localhost, names without a dot, and this
            machine's own name.
        origins: matches origins whose pages may use the server, in lower case.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str], origins: re.Pattern[str]) -> None:
        self._app = app
        self._origins = origins
        machine = socket.gethostname()
        self._names = frozenset(name.lower().rstrip(".") for name in ("localhost", machine, f"{machine}.local", *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware."""
        error = None if scope["type"] == "lifespan" else self._error(scope)
        if error is None:
            await self._app(scope, receive, send)
            return
        scope["state"]["record"].failed(error)
        await failure_of(error).response()(scope, receive, send)

    def _error(self, scope: Scope) -> ApiError | None:
        """Return the error for a request that must be refused, else None."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        speaks = scope["type"] == "http" and scope["path"] == SPEECH and scope["method"] == "GET"
        if speaks and origin is None:
            origin = _embedding_page(headers)
        if host and not self._is_own_host(host):  # HTTP/1.0 needs no Host; browsers always send one
            return _foreign_host_error(host)
        safe = scope["type"] == "http" and scope["method"] in _SAFE_METHODS and not is_preflight(scope) and not speaks
        if origin is None or safe:
            return None
        if self._origins.fullmatch(origin.lower()) or self._is_own_origin(origin, host):
            return None
        return foreign_origin_error(origin)

    def _is_own_origin(self, origin: str, host: str) -> bool:
        try:
            url = urlsplit(origin)
            return url.netloc.lower() == host.lower() and self._is_own_host(url.netloc)
        except ValueError:
            return False

    def _is_own_host(self, host: str) -> bool:
        """Return whether ``host``, with or without a port, is a name that no other site can control."""
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        if parts["name"] is None:
            return _is_address(parts["v6"])
        name = parts["name"].lower()
        if "." not in name:  # a service in a container network, or a machine: public names have a dot
            return True
        name = name.removesuffix(".")
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def _embedding_page(headers: Headers) -> str | None:
    """Return the origin of the page of another site that contains the requested audio; None for pages of this server.

    Browsers send no Origin for ``<audio src>``. Without a Referer the origin is "null".
    """
    if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
        return None
    try:
        page = urlsplit(headers.get("referer", ""))
    except ValueError:
        return "null"
    return f"{page.scheme}://{page.netloc}" if page.netloc else "null"


def _foreign_host_error(host: str) -> ApiError:
    name = shown(re.sub(r":\d*$", "", host))
    message = (
        f"The Host '{name}' is not a known name of this server, which has no API key. If it is one, add it to the "
        f"setting own_names (own_names: ['{name}'], or SONANT_OWN_NAMES='[\"{name}\"]'). Otherwise use the server's "
        "IP address, or set an API key (SONANT_API_KEY)."
    )
    return ApiError(message, status=403, code="foreign_host")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
