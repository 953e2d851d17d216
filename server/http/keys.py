"""The middleware that checks API keys."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import ApiError, failure_of
from server.keys.key_file import ApiKey
from server.keys.valid_keys import Keys
from server.telemetry.record import RequestRecord

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""Paths that need no key: health checks, and pages without user data. All other paths need one."""

_LISTS = frozenset({"/v1/models", "/v1/audio/models", "/v1/audio/voices"})
"""Lists that the setting ``open_lists`` lets clients read without a key."""

_OPEN_FOLDERS = ("/playground/", "/docs/")
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


def bearer_key(authorization: str) -> str | None:
    """Return the key of an ``Authorization`` header, ``Bearer KEY``; None if it has another form."""
    bearer = _BEARER.fullmatch(authorization.strip())
    return None if bearer is None else bearer.group(1)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


class KeyCheck:
    """Middleware that accepts requests with one of ``keys``, and requests to open paths.

    It sets the record's owner and the name of its key. If keys of several owners are valid, the owner also identifies
    the client for limits that count per client: the middleware sets the record's client and
    ``scope["state"]["key_id"]``.

    open_lists: whether the lists of models and voices can be read without a key.
    """

    def __init__(self, app: ASGIApp, keys: Keys, *, open_lists: bool = False) -> None:
        self._app = app
        self._keys = keys
        self._lists = _LISTS if open_lists else frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as ASGI middleware. A WebSocket is refused in its handshake, with the same response."""
        if scope["type"] == "lifespan" or _is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        record: RequestRecord = scope["state"]["record"]
        key = self._key(scope)
        if key is not None:
            record.owner, record.key = key.owner, key.name
            if self._keys.several:
                scope["state"]["key_id"] = record.client = key.owner
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._lists and scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        message = "The API key is missing or not valid: send a valid key as Authorization: Bearer KEY."
        error = ApiError(message, status=401, code="invalid_api_key")
        record.failed(error)
        await failure_of(error).response()(scope, receive, send)

    def _key(self, scope: Scope) -> ApiKey | None:
        headers = Headers(scope=scope)
        if "authorization" not in headers and (key := headers.get("xi-api-key")) is not None:  # ElevenLabs' clients
            return self._keys.identify(key.strip())
        key = bearer_key(headers.get("authorization", ""))
        return None if key is None else self._keys.identify(key)
