"""The settings in use, which survive a crash of the HTTP process."""

from __future__ import annotations

import logging
import mmap
import pickle
import struct
import zlib

from server.settings import Settings

log = logging.getLogger("sonant")

_BYTES = 8 << 20
"""Size of the shared memory. Only its used pages take memory."""
_HEADER = struct.Struct("=QI")
"""Length and CRC-32 of the pickled settings."""


class AppliedSettings:
    """The settings that the last successful reload applied. Create it in the supervisor, before it forks.

    The HTTP process writes them to memory that it shares with the supervisor, and with the process that replaces it
    after a crash. That process must not read the configuration file: it may contain changes that were not applied yet.
    """

    def __init__(self, settings: Settings) -> None:
        self._first = settings
        self._memory = mmap.mmap(-1, _BYTES)

    def get(self) -> Settings:
        """Return the settings of the last reload; the first ones without any."""
        length, checksum = _HEADER.unpack_from(self._memory)
        data = self._memory[_HEADER.size : _HEADER.size + length]
        if not length or zlib.crc32(data) != checksum:
            return self._first
        settings: Settings = pickle.loads(data)
        return settings

    def set(self, settings: Settings) -> None:
        """Store the settings."""
        data = pickle.dumps(settings)
        if _HEADER.size + len(data) > _BYTES:
            log.warning("after a crash the server will use its first configuration: this one has %d bytes", len(data))
            data = b""
        self._memory[_HEADER.size : _HEADER.size + len(data)] = data
        _HEADER.pack_into(self._memory, 0, len(data), zlib.crc32(data))
