"""The folder of stored voices. Nothing of it is kept in memory, so servers that share it always agree."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from server.errors import ApiError
from server.voices.config import VoiceSettings
from server.voices.stored import SUFFIX, StoredVoice, VoiceFileError, read_voice

log = logging.getLogger("sonant.voices")

NAME = "[a-z0-9_-]{1,64}"
"""A regular expression of the names that a stored voice may have."""

UNFINISHED = ".part"
"""What a file's name ends in while it is written; it begins with a point."""

_NAME = re.compile(NAME)
_ABANDONED_SECONDS = 3600.0
"""An unfinished file so old has lost its writer."""
_LOCK = ".lock"
_LOCK_SECONDS = 10.0
"""Writers hold the lock for a millisecond; one that holds it longer has been stopped, and is not waited for."""
_LOCK_RETRY_SECONDS = 0.002


def is_name(text: str) -> bool:
    """Whether a stored voice may have that name: never a path."""
    return _NAME.fullmatch(text) is not None


class VoiceStore:
    """One file a voice. A file appears whole, under a name nobody else has, or not at all. Every method blocks."""

    def __init__(self, settings: VoiceSettings) -> None:
        self._folder = settings.folder
        self._most = settings.max_voices

    def names(self) -> list[str]:
        """Of all stored voices, sorted. Raises ApiError."""
        with _plainly("read"), suppress(FileNotFoundError):
            names = (path.name.removesuffix(SUFFIX) for path in self._folder.iterdir() if path.suffix == SUFFIX)
            return sorted(name for name in names if is_name(name))
        return []

    def voices(self) -> list[StoredVoice]:
        """All of them, oldest first; a file that is no voice is left out, with a line in the log. Raises ApiError."""
        voices = []
        for name in self.names():
            with suppress(ApiError):
                if (voice := self.get(name)) is not None:
                    voices.append(voice)
        return sorted(voices, key=lambda voice: (voice.created_at, voice.name))

    def get(self, name: str) -> StoredVoice | None:
        """The voice of that name, if there is one. Raises ApiError where its file cannot be read."""
        if not is_name(name):
            return None
        try:
            with _plainly("read"), suppress(FileNotFoundError):
                return read_voice(self._path(name))
            return None
        except VoiceFileError as error:
            log.warning("%s: %s", self._path(name), error)
            message = f"The stored voice '{name}' cannot be read: {error}."
            raise ApiError(message, status=500, param="voice", code="voice_unreadable") from None

    def add(self, voice: StoredVoice) -> None:
        """Store a voice, for good when this returns. Raises ApiError: the name is taken, the folder full."""
        with _plainly("written"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep()
            self._write(voice)

    def check_room(self, name: str) -> None:
        """Find out before any work whether a voice of that name can be stored. Raises ApiError."""
        names = self.names()
        if name in names:
            raise name_taken(name)
        if len(names) >= self._most:
            message = f"All {self._most} places for stored voices are taken; delete one first."
            raise ApiError(message, status=409, code="voice_limit_reached")

    def remove(self, name: str) -> bool:
        """Delete the voice of that name; whether there was one. Raises ApiError."""
        if not is_name(name):
            return False
        with _plainly("written"), suppress(FileNotFoundError):
            self._path(name).unlink()
            _keep(self._folder)
            return True
        return False

    def _path(self, name: str) -> Path:
        return self._folder / (name + SUFFIX)

    def _write(self, voice: StoredVoice) -> None:
        """A hard link, unlike a rename, never replaces: of two writers of one name exactly one succeeds."""
        descriptor, unfinished = tempfile.mkstemp(prefix=".", suffix=UNFINISHED, dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(voice.to_bytes())
                file.flush()
                os.fsync(descriptor)
            with self._alone():
                self.check_room(voice.name)
                os.link(unfinished, self._path(voice.name))
        except FileExistsError:
            raise name_taken(voice.name) from None
        finally:
            Path(unfinished).unlink(missing_ok=True)
        _keep(self._folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread or process adds a voice meanwhile. Who dies here is no longer waited for."""
        descriptor = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove what writers left behind that were killed."""
        oldest = time.time() - _ABANDONED_SECONDS
        for path in self._folder.glob(f".*{UNFINISHED}"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


def name_taken(name: str) -> ApiError:
    """The refusal of a name that a voice has already."""
    return ApiError(f"There is a voice '{name}' already.", status=409, param="name", code="voice_exists")


def _lock(descriptor: int) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another writer holds the lock") from None
            time.sleep(_LOCK_RETRY_SECONDS)
        else:
            return


def _keep(folder: Path) -> None:
    """Make the folder's entries outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _plainly(done: str) -> Iterator[None]:
    """Failures of the folder become ApiErrors, whose reason is in the log."""
    try:
        yield
    except OSError as error:
        log.error("the stored voices cannot be %s: %s", done, error)
        message = f"The stored voices of this server cannot be {done}."
        raise ApiError(message, status=500, code="voice_storage_failed") from None
