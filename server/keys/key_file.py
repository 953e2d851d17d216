"""The file of API keys: one key a line, as its hash with a name and limits, or in plain text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.system.regular_file import FileTooLargeError, NotRegularFileError, read_regular
from server.settings import SettingsError

NAME = "[A-Za-z0-9._-]{1,64}"
"""Regular expression of valid names of keys."""

_KEY_ID_PREFIX = b"sonant voice owner\0"
"""Makes key ids different from every other digest of a key (domain separation)."""
_MAX_FILE_BYTES = 4 * 1024 * 1024
_KEY = re.compile(r"[!-~]{1,512}")
_NAME = re.compile(NAME)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_OWNER = re.compile(r"[0-9a-f]{16}")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A valid API key. The key itself is not stored.

    digest: SHA-256 of the key.
    owner: the id of the owner of its voices and outcomes, 16 hexadecimal digits; see ``key_id``.
    name: its name in the log and in metrics; None for a key in plain text.
    max_requests: maximum number of its requests at once; None: no limit.
    audio_seconds_per_day: speech that it may request per day (UTC), in seconds; None: no limit.
    """

    digest: bytes
    owner: str
    name: str | None = None
    max_requests: int | None = None
    audio_seconds_per_day: int | None = None

    def line(self) -> str:
        """Return its line in the key file. Raises ValueError for a key without a name."""
        if self.name is None:
            raise ValueError("a key without a name has no line")
        limits = {"max_requests": self.max_requests, "audio_seconds_per_day": self.audio_seconds_per_day}
        fields = [f"{name}={limit}" for name, limit in limits.items() if limit is not None]
        return " ".join([self.name, f"sha256:{self.digest.hex()}", f"owner={self.owner}", *fields])


def plain_key(key: str) -> ApiKey:
    """Return the ApiKey of a key in plain text. Raises ValueError, whose message does not contain the key."""
    if not _KEY.fullmatch(key):
        raise ValueError("an API key must be 1 to 512 printable ASCII characters without spaces")
    return ApiKey(digest_of(key), key_id(key))


def digest_of(key: str) -> bytes:
    """Return the SHA-256 digest by which a key is stored and compared."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def key_id(key: str) -> str:
    """Return the public id of a key: 16 hexadecimal digits. It also names the folder of the key's stored voices."""
    return hashlib.sha256(_KEY_ID_PREFIX + key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a key file. Raises SettingsError or OSError."""
    try:
        return read_regular(path, _MAX_FILE_BYTES).decode().splitlines()
    except (NotRegularFileError, FileTooLargeError) as error:
        raise SettingsError(f"keys_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"keys_file: {path} is not UTF-8 text") from None


def parse_lines(lines: Iterable[str], path: Path) -> list[ApiKey]:
    """Return the keys in the lines of the key file ``path``. Raises SettingsError, whose message contains no key."""
    keys: list[ApiKey] = []
    owners: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            key = parse_line(line)
            if key is None:
                continue
            if key.name is not None and owners.setdefault(key.name, key.owner) != key.owner:
                raise ValueError(f"the name '{key.name}' is used above with another owner")
        except ValueError as error:
            raise SettingsError(f"keys_file: {path}, line {number}: {error}") from None
        keys.append(key)
    return keys


def parse_line(line: str) -> ApiKey | None:
    """Return the key in a line of a key file, or None for an empty line or a comment. Raises ValueError."""
    words = line.split()
    words = words[: next((index for index, word in enumerate(words) if word.startswith("#")), None)]
    if not words:
        return None
    if len(words) == 1:
        return plain_key(words[0])
    name, stored, *fields = words
    digest = _HASH.fullmatch(stored)
    if digest is None:
        raise ValueError(
            "must be one key of 1 to 512 printable ASCII characters without spaces, or a line of 'sonant keys add': "
            "a name, sha256: and 64 hexadecimal digits, and fields such as max_requests=4. A comment starts with #"
        )
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name must match {NAME}")
    return _named_key(name, bytes.fromhex(digest.group(1)), fields)


def _named_key(name: str, digest: bytes, fields: Iterable[str]) -> ApiKey:
    owner = None
    limits: dict[str, int] = {}
    for field in fields:
        key, _, value = field.partition("=")
        if key == "owner" and _OWNER.fullmatch(value):
            owner = value
        elif key in ("max_requests", "audio_seconds_per_day") and _COUNT.fullmatch(value):
            limits[key] = int(value)
        else:
            raise ValueError(
                "allowed fields are owner=16 hexadecimal digits, max_requests=NUMBER and audio_seconds_per_day=NUMBER, "
                f"got '{field[:40]}'"
            )
    if owner is None:
        raise ValueError("owner=16 hexadecimal digits is missing")
    return ApiKey(digest, owner, name, limits.get("max_requests"), limits.get("audio_seconds_per_day"))
