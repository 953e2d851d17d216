"""CORS: which web pages, browser extensions and desktop shells of other origins may use the server."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import ApiError, failure_of, shown

ANY = "*"
_SCHEME = r"[a-z][a-z0-9+.-]*"
_ORIGIN = re.compile(rf"null|{_SCHEME}://(?P<host>\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]*)(?::(?:\d+|\*))?")
_ANY_PAGE = re.compile(r"\*|https?://\*(?:\.\*)*(?::(?:\d+|\*))?")
"""Origins of a configuration that match the pages of every site."""
_EXPOSED = ("X-Request-Id", "Retry-After", "X-Finish-Reason", "X-Ignored-Fields")


class CorsSettings(BaseModel):
    """Which pages of other origins may use the server."""

    model_config = ConfigDict(extra="forbid")

    allow_origins: tuple[str, ...] = Field(
        (),
        description="Origins of web pages, browser extensions and desktop shells that may use the server, for "
        "instance `http://localhost:3000`, `https://*.example.org`, `http://localhost:*`, `chrome-extension://*`, "
        "`app://.` or `null`. A `*` is a whole part of the host name, or the port. `*` alone allows every page; "
        "without API keys it also needs `allow_any_page`.",
    )
    allow_any_page: bool = Field(
        False,
        description="Accept `*` in `allow_origins` although the server has no API key. Then every page that a browser "
        "on this network opens can use the server and read its answers.",
    )

    @field_validator("allow_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != ANY and not _is_pattern(origin.lower()):
                raise ValueError(
                    "an origin is a scheme, :// and a host, with a port if the address has one and without a path, "
                    f"for instance http://localhost:3000 or https://*.example.org; got '{origin}'"
                )
        return tuple(origin.lower() for origin in origins)

    @property
    def any_page(self) -> bool:
        """Whether the origins include every web page."""
        return any(_ANY_PAGE.fullmatch(origin) for origin in self.allow_origins)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches the allowed origins in lower case."""
        return re.compile("|".join(f"(?:{_expression(origin)})" for origin in self.allow_origins) or r"(?!)")


def _is_pattern(origin: str) -> bool:
    parts = _ORIGIN.fullmatch(origin)
    return parts is not None and all(part == ANY or ANY not in part for part in (parts["host"] or "").split("."))


def _expression(origin: str) -> str:
    if origin == ANY:
        return ".*"
    scheme, separator, rest = origin.partition("://")
    host, colon, port = rest.partition(":") if not rest.startswith("[") else rest.partition("]:")
    closing = "]" if colon == "]:" else ""
    expression = re.escape(scheme + separator) + re.escape(host + closing).replace(r"\*", r"[^\s/:@]+")
    return expression + (":" + port.replace(ANY, r"\d+") if colon else "")


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
