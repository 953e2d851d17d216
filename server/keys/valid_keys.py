"""The API keys that are valid now. They follow the key file while the server runs."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from server.keys.key_file import ApiKey, digest_of, parse_lines, plain_key, read_lines
from server.settings import Settings, SettingsError

log = logging.getLogger("sonant")

_POLL_SECONDS = 0.5
"""Interval at which the key file is checked. A change is used once the file has been the same for this long."""
FileState = tuple[int, int, int, int] | None
"""What changes when the key file does; None if it does not exist."""


class Keys:
    """The valid API keys of one server. ``replace`` changes them at runtime.

    required: whether requests need a key, because there were keys at the start. Revoking all of them changes nothing.
    file_state: the state of the key file just before it was read.
    """

    def __init__(self, keys: Iterable[ApiKey] = (), file_state: FileState = None) -> None:
        self._keys: dict[bytes, ApiKey] = {}
        self._owners: dict[str, ApiKey] = {}
        self.replace(keys)
        self.required = bool(self._keys)
        self.file_state = file_state

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def several(self) -> bool:
        """Whether there are several owners of keys. Each then has its own voices, and counts as one client."""
        return len(self._owners) > 1

    def use(self, other: Keys) -> None:
        """Replace all keys by those of ``other``, which were read later."""
        self._keys, self._owners, self.file_state = other._keys, other._owners, other.file_state

    def replace(self, keys: Iterable[ApiKey]) -> None:
        """Replace all keys."""
        self._keys = {key.digest: key for key in keys}
        self._owners = {key.owner: key for key in self._keys.values()}

    def identify(self, key: str) -> ApiKey | None:
        """Return the ApiKey of ``key``, or None. Compares all keys, each in constant time, even after a match."""
        digest, found = digest_of(key), None
        for known, entry in self._keys.items():
            if hmac.compare_digest(digest, known):
                found = entry
        return found

    def of_owner(self, owner: str) -> ApiKey | None:
        """Return a valid key of ``owner``, or None if it has none any more."""
        return self._owners.get(owner)


def load_keys(settings: Settings) -> Keys:
    """Load the keys from the settings and the key file.

    Raises SettingsError or OSError; their messages contain no key.
    """
    state = None if settings.keys_file is None else _state(settings.keys_file)
    keys = _read_keys(settings)
    if settings.keys_file is not None and len(keys) == int(bool(_api_key(settings))):
        raise SettingsError(f"keys_file: {settings.keys_file} contains no key; add one with 'sonant keys add'")
    return Keys(keys, state)


def _read_keys(settings: Settings) -> list[ApiKey]:
    path = settings.keys_file
    keys = parse_lines(read_lines(path), path) if path is not None else []
    try:
        return [plain_key(single), *keys] if (single := _api_key(settings)) else keys  # a named key has limits: it wins
    except ValueError as error:
        raise SettingsError(f"api_key: {error}") from None


def _api_key(settings: Settings) -> str:
    return settings.api_key.get_secret_value().strip() if settings.api_key else ""


async def follow_key_file(keys: Keys, current: Callable[[], Settings]) -> None:
    """Replace ``keys`` whenever the key file changes. Runs until it is cancelled.

    An invalid or missing file is logged and changes nothing. A file without keys revokes all of them.

    current: returns the settings, whose ``keys_file`` a reload may change.
    """
    previous = keys.file_state
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        settings = current()
        if settings.keys_file is None:
            continue
        state = await asyncio.to_thread(_state, settings.keys_file)
        if settings is current() and state == previous and state != keys.file_state:
            keys.file_state = state
            await _reload(keys, current)
        previous = state


async def _reload(keys: Keys, current: Callable[[], Settings]) -> None:
    settings = current()
    try:
        found = await asyncio.to_thread(_read_keys, settings)
    except (SettingsError, OSError) as error:
        log.error("the API keys stay as they are: %s", error)
        return
    if settings is current():
        keys.replace(found)
        log.info("the key file has changed: %d API keys are valid", len(keys))


def _state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
