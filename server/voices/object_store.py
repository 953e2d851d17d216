"""Stored voices in a bucket: one immutable object for each, so servers on several machines share them.

The paths are those of the folder: ``NAME.safetensors`` for a shared voice, ``keys/OWNER/NAME.safetensors`` for a voice
of one API key.
"""

from __future__ import annotations

import logging

from server.errors import ApiError
from server.voices.config import VoiceSettings
from server.voices.names import is_voice_id, voice_id
from server.voices.object_cache import VoiceObjects
from server.voices.stored_voice import SUFFIX, StoredVoice, VoiceFileError, VoiceHeader
from server.voices.voice_storage import name_taken, not_owner, share_full, storage_full, unreadable

log = logging.getLogger("sonant.voices")


class ObjectVoiceStore:
    """A VoiceStorage in a bucket. See ``VoiceStore`` for the arguments other than ``objects``.

    Limits are checked before a voice is stored. Without a lock, writers at the same moment may exceed them, by one
    voice for each writer.
    """

    def __init__(
        self,
        objects: VoiceObjects,
        settings: VoiceSettings,
        owner: str | None = None,
        share: float | None = None,
        *,
        protect_shared: bool = False,
    ) -> None:
        self._objects = objects
        self._owner = owner
        self._max_voices = settings.max_voices
        self._max_of_owner = None if share is None else max(1, int(share * settings.max_voices))
        self._protect_shared = protect_shared

    def names(self) -> list[str]:
        """Return the sorted names of all voices that the owner sees."""
        return sorted(self._visible(self._objects.paths()))

    def headers(self) -> list[VoiceHeader]:
        """Return the headers of all voices that the owner sees, oldest first."""
        etags = self._objects.paths()

        def read(item: tuple[str, str]) -> VoiceHeader | None:
            name, path = item
            try:
                found = self._read(name, path, etags[path])
            except VoiceFileError as error:
                log.warning("%s: %s", path, error)
                return None
            return None if found is None else found.header

        read_all = self._objects.readers.map(read, self._visible(etags).items())
        found = [header for header in read_all if header is not None]
        return sorted(found, key=lambda header: (header.created_at, header.name))

    def get(self, name: str) -> StoredVoice | None:
        """Return the voice with that id or display name, or None.

        It may have been deleted on another server up to ``STALE_SECONDS`` ago.
        """
        identifier = voice_id(name)
        for path in self._paths_of(identifier):
            try:
                found = self._read(identifier, path)
            except VoiceFileError as error:
                log.warning("%s: %s", path, error)
                raise unreadable(name, error) from None
            if found is not None:
                return found if found.has_name(name) else None
        return None

    def add(self, voice: StoredVoice) -> None:
        """Store a voice. The bucket accepts the object only if none has its path (conditional put)."""
        self.check_room(voice.name, shared=voice.shared)
        if not self._objects.create(self._path_for(voice.name, shared=voice.shared), voice.to_bytes()):
            raise name_taken(voice.name)

    def check_room(self, name: str, *, shared: bool = True) -> None:
        """Check that a voice of that name can be stored."""
        etags = self._objects.paths()
        if self._path_for(name, shared=shared) in etags:
            raise name_taken(name)
        voices = [path for path in etags if path.endswith(SUFFIX)]
        if len(voices) >= self._max_voices:
            raise storage_full(self._max_voices)
        if self._max_of_owner is None or self._owner is None:
            return
        own = sum(path.startswith(_folder(self._owner)) for path in voices)
        shared_paths = [path for path in voices if "/" not in path]
        if own + len(shared_paths) >= self._max_of_owner:  # only now read which shared voices it has stored
            own += sum(self._stored_by_owner(path, etags[path]) for path in shared_paths)
        if own >= self._max_of_owner:
            raise share_full(self._max_of_owner, self._max_voices, own)

    def remove(self, name: str) -> bool:
        """Delete the voice with that id, the owner's own first."""
        if not is_voice_id(name):
            return False
        etags = self._objects.paths()
        path = next((path for path in self._paths_of(name) if path in etags), None)
        if path is None:
            return False
        if self._protect_shared and "/" not in path and not self._stored_by_owner(path, etags[path]):
            raise not_owner(name)
        self._objects.delete(path)
        return True

    def _paths_of(self, name: str) -> list[str]:
        """Return the paths at which the owner may see a voice of that name, its own first."""
        own = [] if self._owner is None else [_folder(self._owner) + name + SUFFIX]
        return [*own, name + SUFFIX]

    def _path_for(self, name: str, *, shared: bool) -> str:
        if shared:
            return name + SUFFIX
        if self._owner is None:
            raise ValueError("a private voice needs an owner, got None")
        return _folder(self._owner) + name + SUFFIX

    def _visible(self, etags: dict[str, str | None]) -> dict[str, str]:
        """Return the paths of the voices that the owner sees, by name."""
        found: dict[str, str] = {}
        for folder in ("", *([] if self._owner is None else [_folder(self._owner)])):
            for path in etags:
                name = path.removeprefix(folder).removesuffix(SUFFIX)
                if path == folder + name + SUFFIX and is_voice_id(name):
                    found[name] = path
        return found

    def _read(self, name: str, path: str, etag: str | None = None) -> StoredVoice | None:
        """Return the voice in an object, or None if it does not exist. Raises VoiceFileError, ApiError."""
        data = self._objects.get(path, etag)
        return None if data is None else StoredVoice.from_bytes(data, name, shared="/" not in path)

    def _stored_by_owner(self, path: str, etag: str | None) -> bool:
        try:
            found = self._read(path.removesuffix(SUFFIX), path, etag)
        except (VoiceFileError, ApiError):
            return False
        return found is not None and self._owner is not None and found.maker == self._owner


def _folder(owner: str) -> str:
    return f"keys/{owner}/"
