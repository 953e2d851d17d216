"""The voices of recordings that requests bring: each recording is fetched, checked, and encoded once."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine.client import EngineClient
from engine.request import SAMPLE_RATE, Voice
from server.references.fetching import Fetcher
from server.references.resolver import Resolve, SystemResolver
from server.references.sharing import Shared
from server.references.sources import read_source
from server.settings import Settings

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
