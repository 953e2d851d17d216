"""Turns the reference recordings of requests into voices. Recordings are encoded once, and the voices are cached."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from engine.protocol.engine import Engine
from engine.protocol.request import SAMPLE_RATE, Voice
from engine.system.regular_file import FileTooLargeError, read_regular
from server.errors import ApiError
from server.references.fetch import Fetcher, Resolve, SystemResolver
from server.references.prepare import ReferenceChanges, prepare
from server.references.transcript import Transcript
from server.references.validation import invalid_recording, recording_too_large, unsupported_source
from server.settings import Settings
from server.single_flight import SingleFlightCache

_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]{512}")
"""Beginning of a recording in base64 without ``data:``. File paths contain a dot or another character earlier."""


def read_file(source: str, folders: Sequence[Path], max_bytes: int) -> bytes:
    """Read the file at ``source``, an absolute path or a ``file:`` URL. Blocks: call it off the event loop.

    Raises ApiError. It is the same error for a file that does not exist, is outside of ``folders`` or cannot be read,
    so that clients cannot probe for files.
    """
    if not folders:
        raise unsupported_source(
            "this server reads no local files (references.folders); send a data:, http or https URL"
        )
    try:
        path = _path(source).resolve(strict=True)
        if not any(path.is_relative_to(folder.resolve()) for folder in folders):
            raise _not_found()
        return read_regular(path, max_bytes, follow_symlinks=False)
    except FileTooLargeError:
        raise recording_too_large(max_bytes) from None
    except (OSError, RuntimeError, ValueError):
        raise _not_found() from None


def _path(source: str) -> Path:
    """Return the path in ``source``. Raises ValueError unless it is an absolute path on this machine."""
    if source.startswith("/"):
        return Path(source)
    url = urlsplit(source)
    path = Path(unquote(url.path))
    if url.netloc.lower() not in ("", "localhost") or not path.is_absolute():
        raise ValueError(source)
    return path


def _not_found() -> ApiError:
    return invalid_recording("the file is not in references.folders, or cannot be read", "reference_not_found")


async def read_source(source: str, fetcher: Fetcher, settings: Settings) -> bytes:
    """Return the bytes of the recording that ``source`` contains or refers to. Raises ApiError."""
    max_bytes = settings.limits.reference_max_bytes
    if _BASE64.match(source):
        source = f"data:;base64,{source}"
    scheme = source.partition(":")[0].lower()
    if scheme == "data":
        return await asyncio.to_thread(read_data_url, source, max_bytes)
    if scheme in ("http", "https"):
        return await fetcher.fetch(source)
    if scheme == "file" or source.startswith("/"):
        return await asyncio.to_thread(read_file, source, settings.references.folders, max_bytes)
    raise unsupported_source("it must be a 'data:audio/...;base64,' URL, base64, or an http or https URL")


def read_data_url(url: str, max_bytes: int) -> bytes:
    """Decode a base64 ``data:`` URL, which may contain line breaks. Raises ApiError: invalid base64, or too large."""
    header, comma, text = url.partition(",")
    if not comma or not header.lower().endswith(";base64"):
        raise invalid_recording("a data URL must have the form 'data:audio/wav;base64,...'")
    text = text.replace("\r", "").replace("\n", "")
    if len(text) // 4 * 3 > max_bytes + 2:
        raise recording_too_large(max_bytes)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_recording("the data URL is not valid base64") from None


Decode = Callable[[bytes], Awaitable[NDArray[np.float32]]]
"""Decodes the bytes of a file to mono samples at 24 kHz. Raises ApiError."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceVoice:
    """The voice of a recording, and what was done to the recording and its transcript to make it."""

    voice: Voice
    changes: ReferenceChanges


class ReferenceLibrary:
    """Creates voices from recordings with one engine, and caches the last used ones by the hash of their files.

    Args:
        engine: encodes the recordings.
        settings: the settings of the server.
        decode: decodes a file; ``Decoder.decode`` for untrusted recordings.
        resolve: replaces the system's DNS resolver.
        tls: replaces the default certificate authorities.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        decode: Decode,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._engine, self._settings, self._decode = engine, settings, decode
        max_bytes = settings.limits.reference_max_bytes
        self._fetcher = Fetcher(settings.references, max_bytes, resolve or SystemResolver(), tls)
        self._voices: SingleFlightCache[ReferenceVoice] = SingleFlightCache(settings.references.cached_voices)

    @property
    def hits(self) -> int:
        """Number of cache hits, including requests that joined an encoding in flight."""
        return self._voices.hits

    def adopt(self, other: ReferenceLibrary) -> None:
        """Copy the voices that ``other`` has cached, if it would encode recordings in the same way."""
        if _encoding_settings(self._settings) == _encoding_settings(other._settings):
            self._voices.adopt(other._voices)

    async def voice(self, source: str, transcript: Transcript | None) -> ReferenceVoice:
        """Return the voice of ``ref_audio``, with its codes if there is a transcript (in-context cloning).

        Raises ApiError or EngineError.
        """
        return await self.voice_of(await read_source(source, self._fetcher, self._settings), transcript)

    async def voice_of(self, data: bytes, transcript: Transcript | None) -> ReferenceVoice:
        """Return the voice of the recording in ``data``, the bytes of a file. Raises ApiError or EngineError."""
        key = await asyncio.to_thread(_cache_key, data, transcript)
        return await self._voices.get(key, lambda: self._encode(data, transcript))

    async def _encode(self, data: bytes, transcript: Transcript | None) -> ReferenceVoice:
        samples = await self._decode(data)
        shortest, longest = self._engine.info.profile.reference_seconds
        if not self._settings.limits.reference_min_seconds:
            shortest = 0.0
        mismatched = self._settings.references.mismatched_transcript
        prepared = await asyncio.to_thread(prepare, samples, transcript, (shortest, longest), mismatched)
        codes = prepared.transcript is not None
        voice = await self._engine.encode_reference(
            prepared.samples, SAMPLE_RATE, codes=codes, transcript=prepared.transcript
        )
        return ReferenceVoice(voice, prepared.changes)


def _encoding_settings(settings: Settings) -> tuple[object, ...]:
    return settings.references, settings.limits.reference_min_seconds


def _cache_key(data: bytes, transcript: Transcript | None) -> bytes:
    """Return the key of a voice: the recording, and the transcript, which decides how much of it is used."""
    digest = hashlib.sha256(data).digest()
    if transcript is None:
        return digest
    return digest + hashlib.sha256(f"{transcript.stop_added:d}{transcript.text}".encode()).digest()
