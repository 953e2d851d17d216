"""API keys: where they are read from, and the middleware that checks them."""

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

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/docs/oauth2-redirect", "/openapi.json"})
"""What needs no key: whether the server lives, and pages that say nothing of anybody's speech. All else does."""

_OPEN_FOLDER = "/playground/"

_OWNER = b"sonant voice owner\0"
"""Separates key ids from every other digest of a key."""

_MAX_FILE_BYTES = 4 * 1024 * 1024
_KEY = re.compile(r"[!-~]{1,512}")
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


class Keys:
    """The different keys of one server, kept as digests of equal length, so that comparing them tells nothing."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._ids = {_digest(key): key_id(key) for key in keys}

    def __len__(self) -> int:
        return len(self._ids)

    def identify(self, given: str) -> str | None:
        """Return the id of the key that ``given`` is, or None. Compares every key, whichever matches."""
        digest, found = _digest(given), None
        for each, name in self._ids.items():
            if hmac.compare_digest(digest, each):
                found = name
        return found


def key_id(key: str) -> str:
    """Return the public name of a key: 16 hexadecimal digits, which name the folder of the key's stored voices."""
    return hashlib.sha256(_OWNER + key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def load_keys(settings: Settings) -> Keys:
    """The key of the settings and those of the key file. Raises SettingsError or OSError; names no key."""
    keys = _read_keys(settings.keys_file) if settings.keys_file else []
    single = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if single and not _KEY.fullmatch(single):
        raise SettingsError("api_key: a key is printable ASCII without spaces, at most 512 characters")
    return Keys([*keys, single] if single else keys)


def _read_keys(path: Path) -> list[str]:
    try:
        lines = read_regular(path, _MAX_FILE_BYTES).decode().splitlines()
    except (NotRegularFileError, FileTooLargeError) as error:
        raise SettingsError(f"keys_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"keys_file: {path} is not a text file") from None
    keys = []
    for number, line in enumerate(lines, 1):
        key, *rest = line.split(maxsplit=1) or [""]
        if not key or key.startswith("#"):
            continue
        if not _KEY.fullmatch(key) or (rest and not rest[0].startswith("#")):
            raise SettingsError(f"keys_file: {path}, line {number}: one key a line, and # before a comment")
        keys.append(key)
    if not keys:
        raise SettingsError(f"keys_file: {path} holds no key")
    return keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(_OPEN_FOLDER)


class KeyCheck:
    """Lets a request pass that brings one of ``keys``, or asks for an open path.

    The key's id is then the record's owner. Where there are several keys it also names the client, for limits that
    count per client: it is the record's client and ``scope["state"]["key_id"]``.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. A WebSocket is refused in its handshake, with the same answer."""
        if scope["type"] == "lifespan" or _is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        record: RequestRecord = scope["state"]["record"]
        name = self._key_id(scope)
        if name is not None:
            record.owner = name
            if len(self._keys) > 1:
                scope["state"]["key_id"] = record.client = name
            await self._app(scope, receive, send)
            return
        refusal = ApiError("A valid key is needed: Authorization: Bearer KEY.", status=401, code="invalid_api_key")
        record.failed(refusal)
        await failure_of(refusal).response()(scope, receive, send)

    def _key_id(self, scope: Scope) -> str | None:
        given = _BEARER.fullmatch(Headers(scope=scope).get("authorization", "").strip())
        return None if given is None else self._keys.identify(given.group(1))
