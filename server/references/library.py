"""Voices of the reference recordings in requests: each is read, decoded and encoded once, and cached."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from engine.client.client import EngineClient
from engine.protocol.request import SAMPLE_RATE, Voice
from engine.system.regular_file import FileTooLargeError, read_regular
from server.errors import ApiError
from server.references.bounds import refusal, too_large, unsupported
from server.references.fetch import Fetcher, Resolve, SystemResolver
from server.settings import Settings
from server.single_flight import Shared


def read_file(source: str, folders: Sequence[Path], most_bytes: int) -> bytes:
    """The file that ``source``, an absolute path or a ``file:`` URL, names. Blocks: call it off the event loop.

    Raises ApiError, the same one whether there is no such file, it is elsewhere, or it cannot be read.
    """
    if not folders:
        raise unsupported("this server reads no files of its own; send a 'data:' URL, or an http or https address")
    try:
        path = _path(source).resolve(strict=True)
        if not any(path.is_relative_to(folder.resolve()) for folder in folders):
            raise _missing()
        return read_regular(path, most_bytes, follow_symlinks=False)
    except FileTooLargeError:
        raise too_large(most_bytes) from None
    except (OSError, RuntimeError, ValueError):
        raise _missing() from None


def _path(source: str) -> Path:
    """Raises ValueError where ``source`` is no absolute path of this machine."""
    if source.startswith("/"):
        return Path(source)
    url = urlsplit(source)
    path = Path(unquote(url.path))
    if url.netloc.lower() not in ("", "localhost") or not path.is_absolute():
        raise ValueError(source)
    return path


def _missing() -> ApiError:
    return refusal("there is no such file in the folders that this server reads recordings from", "reference_not_found")


async def read_source(source: str, fetcher: Fetcher, settings: Settings) -> bytes:
    """The file that ``source`` carries or names. Raises ApiError."""
    most = settings.limits.reference_max_bytes
    scheme = source.partition(":")[0].lower()
    if scheme == "data":
        return await asyncio.to_thread(read_data_url, source, most)
    if scheme in ("http", "https"):
        return await fetcher.fetch(source)
    if scheme == "file" or source.startswith("/"):
        return await asyncio.to_thread(read_file, source, settings.references.folders, most)
    raise unsupported("send a 'data:audio/...;base64,' URL, or an http or https address")


def read_data_url(url: str, most_bytes: int) -> bytes:
    """The bytes of a base64 ``data:`` URL, which may have line breaks. Raises ApiError: bad base64, too large."""
    header, comma, text = url.partition(",")
    if not comma or not header.lower().endswith(";base64"):
        raise refusal("a data URL must look like 'data:audio/wav;base64,...'")
    text = text.replace("\r", "").replace("\n", "")
    if len(text) // 4 * 3 > most_bytes + 2:
        raise too_large(most_bytes)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise refusal("the data is not base64") from None


Decode = Callable[[bytes], Awaitable[NDArray[np.float32]]]
"""From the bytes of a file to mono samples at 24 kHz. Raises ApiError."""


class ReferenceLibrary:
    """Makes voices with one engine, and so for one checkpoint; keeps those used last, by what is in their files.

    decode: ``Decoder.decode`` for recordings that strangers send.
    resolve, tls: in place of the system's name lookup and certificate authorities.
    """

    def __init__(
        self,
        engine: EngineClient,
        settings: Settings,
        decode: Decode,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._engine, self._settings, self._decode = engine, settings, decode
        most_bytes = settings.limits.reference_max_bytes
        self._fetcher = Fetcher(settings.references, most_bytes, resolve or SystemResolver(), tls)
        self._voices: Shared[Voice] = Shared(settings.references.cached_voices)

    @property
    def hits(self) -> int:
        """How often a voice was at hand, or being made."""
        return self._voices.hits

    async def voice(self, source: str, transcript: str | None) -> Voice:
        """The voice of ``ref_audio``, with its transcript for in-context cloning. Raises ApiError or EngineError."""
        return await self.voice_of(await read_source(source, self._fetcher, self._settings), transcript)

    async def voice_of(self, data: bytes, transcript: str | None) -> Voice:
        """The voice of the recording in a file's bytes. Raises ApiError or EngineError."""
        codes = transcript is not None
        key = (await asyncio.to_thread(hashlib.sha256, data)).digest() + bytes([codes])
        voice = await self._voices.get(key, lambda: self._encoded(data, codes))
        return replace(voice, transcript=transcript)

    async def _encoded(self, data: bytes, codes: bool) -> Voice:
        samples = await self._decode(data)
        return await self._engine.encode_reference(samples, SAMPLE_RATE, codes=codes)
