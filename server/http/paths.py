"""Serves requests whose path differs from a route only in its slashes or in the missing ``/v1``."""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

SPEECH = "/v1/audio/speech"

_SLASHES = re.compile(r"/{2,}")
_WITHOUT_VERSION = re.compile(r"/(?:audio/|models(?:/|$))")
"""How a path begins when a client was given the server's address without ``/v1``."""


class CanonicalPaths:
    """Middleware that gives the application the canonical form of each path.

    ``//v1/audio//speech/`` and ``/audio/speech`` become ``/v1/audio/speech``. It runs before the check of API keys, so
    that the check sees the path that is served.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware."""
        if scope["type"] != "lifespan" and (path := canonical_path(scope["path"])) != scope["path"]:
            scope = {**scope, "path": path, "raw_path": quote(path).encode()}
        await self._app(scope, receive, send)


def canonical_path(path: str) -> str:
    """Return ``path`` with single slashes, without a slash at its end, and with ``/v1`` if a client omitted it."""
    path = _SLASHES.sub("/", path)
    if len(path) > 1:
        path = path.removesuffix("/")
    return f"/v1{path}" if _WITHOUT_VERSION.match(path) else path
