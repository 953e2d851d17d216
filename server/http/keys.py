"""API keys: loading them, and the middleware that checks them."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.system.regular_file import FileTooLargeError, NotRegularFileError, read_regular
from server.errors import ApiError, failure_of
from server.settings import Settings, SettingsError
from server.telemetry.record import RequestRecord

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""Paths that need no key: health checks, and pages without user data. All other paths need one."""

_LISTS = frozenset({"/v1/models", "/v1/audio/models", "/v1/audio/voices"})
"""Lists that the setting ``open_lists`` lets clients read without a key."""

_OPEN_FOLDERS = ("/playground/", "/docs/")

_KEY_ID_PREFIX = b"sonant voice owner\0"
"""Makes key ids different from every other digest of a key (domain separation)."""

_MAX_FILE_BYTES = 4 * 1024 * 1024
_KEY = re.compile(r"[!-~]{1,512}")
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


class Keys:
    """The distinct API keys of one server, stored as digests of equal length so that comparing them leaks nothing."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._ids = {_digest(key): key_id(key) for key in keys}

    def __len__(self) -> int:
        return len(self._ids)

    def identify(self, key: str) -> str | None:
        """Return the id of ``key``, or None. Compares all keys, each in constant time, even after a match."""
        digest, found = _digest(key), None
        for known, identifier in self._ids.items():
            if hmac.compare_digest(digest, known):
                found = identifier
        return found


def key_id(key: str) -> str:
    """Return the public id of a key: 16 hexadecimal digits. It also names the folder of the key's stored voices."""
    return hashlib.sha256(_KEY_ID_PREFIX + key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def load_keys(settings: Settings) -> Keys:
    """Load the keys from the settings and the key file.

    Raises SettingsError or OSError; their messages contain no key.
    """
    keys = _read_keys(settings.keys_file) if settings.keys_file else []
    single = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if single and not _KEY.fullmatch(single):
        raise SettingsError("api_key must be 1 to 512 printable ASCII characters without spaces")
    return Keys([*keys, single] if single else keys)


def _read_keys(path: Path) -> list[str]:
    try:
        lines = read_regular(path, _MAX_FILE_BYTES).decode().splitlines()
    except (NotRegularFileError, FileTooLargeError) as error:
        raise SettingsError(f"keys_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"keys_file: {path} is not UTF-8 text") from None
    keys = []
    for number, line in enumerate(lines, 1):
        key, *rest = line.split(maxsplit=1) or [""]
        if not key or key.startswith("#"):
            continue
        if not _KEY.fullmatch(key) or (rest and not rest[0].startswith("#")):
            raise SettingsError(
                f"keys_file: {path}, line {number} must be one key of 1 to 512 printable ASCII characters without "
                "spaces, optionally followed by a space, # and a comment"
            )
        keys.append(key)
    if not keys:
        raise SettingsError(f"keys_file: {path} contains no key")
    return keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


class KeyCheck:
    """Middleware that accepts requests with one of ``keys``, and requests to open paths.

    It sets the record's owner to the key's id. If the server has several keys, the id also identifies the client for
    limits that count per client: the middleware sets the record's client and ``scope["state"]["key_id"]``.

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
        identifier = self._key_id(scope)
        if identifier is not None:
            record.owner = identifier
            if len(self._keys) > 1:
                scope["state"]["key_id"] = record.client = identifier
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._lists and scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        message = "The API key is missing or not valid: send a valid key as Authorization: Bearer KEY."
        error = ApiError(message, status=401, code="invalid_api_key")
        record.failed(error)
        await failure_of(error).response()(scope, receive, send)

    def _key_id(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if "authorization" not in headers and (key := headers.get("xi-api-key")) is not None:  # ElevenLabs' clients
            return self._keys.identify(key.strip())
        bearer = _BEARER.fullmatch(headers.get("authorization", "").strip())
        return None if bearer is None else self._keys.identify(bearer.group(1))
