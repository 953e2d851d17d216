"""The folder of stored voices. Nothing is cached in memory, so servers that share the folder stay consistent.

Shared voices are in the folder itself. The voices of one API key are in ``keys/ID/``, where ID is
``server.keys.key_file.key_id``.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from server.errors import ApiError
from server.file_lock import lock_file
from server.voices.config import VoiceSettings
from server.voices.names import is_voice_id, voice_id
from server.voices.pacing import paced
from server.voices.stored_voice import SUFFIX, StoredVoice, VoiceFileError, VoiceHeader, read_header, read_voice
from server.voices.voice_storage import name_taken, not_owner, share_full, storage_full, unreadable

log = logging.getLogger("sonant.voices")

UNFINISHED = ".part"
"""Suffix of a file that is being written. Its name starts with a dot."""

_KEYS = "keys"
"""The folder that contains one folder per API key."""
_ABANDONED_SECONDS = 3600.0
"""Age at which an unfinished file is deleted: its writer is gone."""
_READ_AT_ONCE = 16
"""Voice headers read between two pauses: about 0.5 ms of work."""
_LOCK = ".lock"
_LOCK_SECONDS = 10.0
"""Lock timeout. Writers hold the lock for about 1 ms; one that holds it for seconds is suspended."""


T = TypeVar("T", covariant=True)


class _Reader(Protocol[T]):
    def __call__(self, path: Path, *, shared: bool) -> T:
        """Read a voice or its header from a file. Raises VoiceFileError, OSError."""


class VoiceStore:
    """Stores each voice in one file. Writes are atomic and never replace an existing voice. Every method blocks.

    owner: the id of an API key. It sees its own voices and the shared ones; its own take precedence.
    share: maximum fraction of ``max_voices`` that one owner may store, including shared voices; None: no limit.
    protect_shared: whether the owner can delete only those shared voices that it stored itself.
    """

    def __init__(
        self,
        settings: VoiceSettings,
        owner: str | None = None,
        share: float | None = None,
        *,
        protect_shared: bool = False,
    ) -> None:
        self._folder = settings.folder
        self._own = self._folder / _KEYS / owner if owner is not None else None
        self._owner = owner
        self._max_voices = settings.max_voices
        self._max_of_owner = None if share is None else max(1, int(share * settings.max_voices))
        self._protect_shared = protect_shared

    def names(self) -> list[str]:
        """Return the sorted names of all voices that the owner sees. Raises ApiError."""
        with _storage_errors("read"):
            return sorted({name for folder in self._visible for name in _names_in(folder)})

    def headers(self) -> list[VoiceHeader]:
        """Return the headers of all voices that the owner sees, oldest first.

        Invalid files are logged and skipped. Raises ApiError.
        """
        found = []
        for name in paced(self.names(), _READ_AT_ONCE):
            with suppress(VoiceFileError, ApiError):
                if (header := self._find(read_header, name)) is not None:
                    found.append(header)
        return sorted(found, key=lambda header: (header.created_at, header.name))

    def get(self, name: str) -> StoredVoice | None:
        """Return the voice with that id or display name, or None. Raises ApiError when its file cannot be read."""
        identifier = voice_id(name)
        try:
            voice = self._find(read_voice, identifier)
            return voice if voice is not None and voice.has_name(name) else None
        except VoiceFileError as error:
            raise unreadable(name, error) from None

    def add(self, voice: StoredVoice) -> None:
        """Store a voice; it is durable (fsync) when this returns.

        Raises ApiError when the name is taken, a limit is reached, or the folder cannot be written.
        """
        with _storage_errors("written"):
            target = self._folder_for(shared=voice.shared)
            for folder in (self._folder, target.parent, target):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    _sync_folder(folder.parent)
            self._delete_abandoned()
            self._write(voice, target)

    def check_room(self, name: str, *, shared: bool = True) -> None:
        """Check that a voice of that name can be stored.

        Raises ApiError when the name is taken, a limit is reached, or the folder cannot be read.
        """
        with _storage_errors("read"):
            if name in _names_in(self._folder_for(shared=shared)):
                raise name_taken(name)
            shared_names = _names_in(self._folder)
            if len(shared_names) + sum(map(len, map(_names_in, self._key_folders()))) >= self._max_voices:
                raise storage_full(self._max_voices)
            self._check_share(shared_names)

    def remove(self, name: str) -> bool:
        """Delete the voice with that id, the owner's own before a shared one. Return whether it existed.

        Raises ApiError; 403 for a protected shared voice.
        """
        if not is_voice_id(name):
            return False
        with _storage_errors("written"):
            if self._own is not None and _delete(self._own, name):
                return True
            if not self._protect_shared:
                return _delete(self._folder, name)
            if not _path(self._folder, name).exists():
                return False
            with self._locked():  # the name cannot pass to a voice of another key between check and deletion
                if not self._stored_by_owner(name):
                    raise not_owner(name)
                return _delete(self._folder, name)

    @property
    def _visible(self) -> list[Path]:
        """The folders with the voices that the owner sees, its own first."""
        return [self._folder] if self._own is None else [self._own, self._folder]

    def _folder_for(self, *, shared: bool) -> Path:
        """Return the folder for a new voice. Raises ValueError for a private voice without an owner."""
        if shared:
            return self._folder
        if self._own is None:
            raise ValueError("a private voice needs an owner, got None")
        return self._own

    def _key_folders(self) -> list[Path]:
        """Return the folders of all API keys that have stored private voices."""
        with suppress(FileNotFoundError), os.scandir(self._folder / _KEYS) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
        return []

    def _check_share(self, shared_names: list[str]) -> None:
        if self._max_of_owner is None or self._own is None:
            return
        count = len(_names_in(self._own))
        if count + len(shared_names) >= self._max_of_owner:  # only now read which shared voices it has stored
            count += sum(self._stored_by_owner(name) for name in shared_names)
        if count >= self._max_of_owner:
            raise share_full(self._max_of_owner, self._max_voices, count)

    def _stored_by_owner(self, name: str) -> bool:
        with suppress(OSError, VoiceFileError):
            return self._owner is not None and read_header(_path(self._folder, name)).maker == self._owner
        return False

    def _find(self, read: _Reader[T], name: str) -> T | None:
        """Return the result of ``read`` for the first file of that name, or None. Raises VoiceFileError, ApiError."""
        for folder in self._visible:
            path = _path(folder, name)
            try:
                with _storage_errors("read"), suppress(FileNotFoundError):
                    return read(path, shared=folder is self._folder)
            except VoiceFileError as error:
                log.warning("%s: %s", path, error)
                raise
        return None

    def _write(self, voice: StoredVoice, target: Path) -> None:
        """Write the voice to a temporary file and link it to its name.

        Unlike a rename, a hard link never replaces a file: of two concurrent writers exactly one succeeds.
        """
        descriptor, unfinished = tempfile.mkstemp(prefix=".", suffix=UNFINISHED, dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(voice.to_bytes())
                file.flush()
                os.fsync(descriptor)
            with self._locked():
                self.check_room(voice.name, shared=voice.shared)
                os.link(unfinished, _path(target, voice.name))
        except FileExistsError:
            raise name_taken(voice.name) from None
        finally:
            Path(unfinished).unlink(missing_ok=True)
        _sync_folder(target)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder, so that no other thread or process adds a voice.

        The kernel releases the lock when its holder dies.
        """
        descriptor = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock_file(descriptor, _LOCK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _delete_abandoned(self) -> None:
        """Delete the unfinished files of writers that were killed."""
        oldest = time.time() - _ABANDONED_SECONDS
        for path in self._folder.glob(f".*{UNFINISHED}"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


def _path(folder: Path, name: str) -> Path:
    return folder / (name + SUFFIX)


def _names_in(folder: Path) -> list[str]:
    """Return the names of the voices in a folder, or none if the folder does not exist. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name.removesuffix(SUFFIX) for entry in entries if entry.name.endswith(SUFFIX)]
    except FileNotFoundError:
        return []
    return list(filter(is_voice_id, names))


def name_reserved(name: str) -> ApiError:
    """Return the error for a name that a voice cannot be stored under."""
    message = (
        f"name '{name}' is reserved: built-in voices, OpenAI's voices and the server's configuration use such names; "
        "choose another name"
    )
    return ApiError(message, status=409, param="name", code="voice_exists")


def _delete(folder: Path, name: str) -> bool:
    """Delete the file of a voice. Return whether it existed. Raises OSError."""
    try:
        _path(folder, name).unlink()
    except FileNotFoundError:
        return False
    _sync_folder(folder)
    return True


def _sync_folder(folder: Path) -> None:
    """Sync the folder to disk, so that its entries survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _storage_errors(action: str) -> Iterator[None]:
    """Convert an OSError to ApiError 500 and log its reason. action: "read" or "written"."""
    try:
        yield
    except OSError as error:
        log.error("voices.folder cannot be %s: %s", action, error)
        message = f"the stored voices of this server cannot be {action}; the server's log says why"
        raise ApiError(message, status=500, code="voice_storage_failed") from None
