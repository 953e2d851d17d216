"""CORS: which web pages, browser extensions and desktop shells of other origins may use the server."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import ApiError, failure_of, shown

_EXPOSED = ("X-Request-Id", "Retry-After", "X-Finish-Reason", "X-Ignored-Fields")


class CrossOrigin:
    """Middleware that answers CORS preflights and adds CORS headers for allowed origins.

    A preflight of any other origin gets an error that names the setting.

    Args:
        app: the wrapped ASGI application.
        origins: matches allowed origins, in lower case.
    """

    def __init__(self, app: ASGIApp, origins: re.Pattern[str]) -> None:
        self._app = app
        self._origins = origins
        self._allowed = CORSMiddleware(
            app,
            allow_origin_regex=r".*",
            allow_methods=("GET", "HEAD", "POST", "DELETE"),
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=_EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware."""
        origin = Headers(scope=scope).get("origin") if scope["type"] == "http" else None
        if origin is None:
            await self._app(scope, receive, send)
        elif self._origins.fullmatch(origin.lower()):
            await self._allowed(scope, receive, send)
        elif is_preflight(scope):
            error = foreign_origin_error(origin)
            scope["state"]["record"].failed(error)
            await failure_of(error).response()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def is_preflight(scope: Scope) -> bool:
    """Return whether the request is a CORS preflight: a browser asks whether a page may send a request."""
    return scope["method"] == "OPTIONS" and "access-control-request-method" in Headers(scope=scope)


def foreign_origin_error(origin: str) -> ApiError:
    """Return the error for a page of another origin that is not allowed."""
    name = shown(origin)
    message = (
        f"Web pages of '{name}' cannot use this server. To allow them, add the origin to the setting "
        f"cors.allow_origins (cors: {{allow_origins: ['{name}']}}, or SONANT_CORS__ALLOW_ORIGINS='[\"{name}\"]'). "
        "If it is a host name of this server, add the name to the setting own_names."
    )
    return ApiError(message, status=403, code="foreign_origin")
