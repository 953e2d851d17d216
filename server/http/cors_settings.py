"""Settings of CORS. Does not import FastAPI, so that commands can read the settings cheaply."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

ANY = "*"
_SCHEME = r"[a-z][a-z0-9+.-]*"
_ORIGIN = re.compile(rf"null|{_SCHEME}://(?P<host>\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]*)(?::(?:\d+|\*))?")
_ANY_PAGE = re.compile(r"\*|https?://\*(?:\.\*)*(?::(?:\d+|\*))?")
"""Origins of a configuration that match the pages of every site."""


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
