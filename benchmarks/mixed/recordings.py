"""Encodes reference recordings under load, and checks that each voice equals the one encoded without load.

The engine caches voices by the bits of their samples. To avoid cache hits, each recording ends in zeros whose sign bits
contain a counter. The recording is thus new to the cache every time, but always the same for the encoders.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.recording import synthetic_recording
from engine.client.client import EngineClient
from engine.errors import EngineError
from engine.protocol.request import SAMPLE_RATE, EngineInfo, Voice

_SECONDS = (2.0, 12.0)
_PITCHES = (100.0, 240.0)
_BITS = 32
_COSINE = 0.9999


class Recordings:
    """``count`` recordings of 2 to 12 s, alternately without and with codes; none if the checkpoint cannot clone.

    share: minimum fraction of a recording's codes that must be the same as without load.
    """

    def __init__(self, engine: EngineClient, info: EngineInfo, count: int, *, share: float) -> None:
        self._engine, self._numbers, self._share = engine, itertools.count(), share
        count = count if info.embedding_width is not None else 0
        lengths, pitches = np.linspace(*_SECONDS, count), np.linspace(*_PITCHES, count)
        self._samples = [synthetic_recording(length, pitch) for length, pitch in zip(lengths, pitches, strict=True)]
        self._codes = [bool(number % 2) and info.in_context for number in range(count)]
        self._expected: list[Voice] = []
        self._encode_seconds: list[float] = []
        self._different = 0
        self._failed: Counter[str] = Counter()

    async def alone(self) -> None:
        """Encode every recording, one after the other. Raises EngineError when one cannot be encoded."""
        self._expected = [await self._encode(number) for number in range(len(self._samples))]

    async def concurrently(self, clients: int, seconds: float, seed: int) -> None:
        """Run ``clients`` concurrent clients for ``seconds``; each encodes one random recording after the other."""
        if self._samples:
            deadline = time.monotonic() + seconds
            await asyncio.gather(*(self._client(Random(f"{seed} {number}"), deadline) for number in range(clients)))

    @property
    def encoded(self) -> int:
        """Number of recordings encoded under load so far."""
        return len(self._encode_seconds)

    def results(self) -> dict[str, Any]:
        """Return encoding times under load, and the numbers of recordings with a different voice and of failures.

        distinguished: of the ``recordings``, the number whose voice differs from the next one's. It should be all of
        them; this tests the comparison itself.
        """
        times = {}
        if self._encode_seconds:
            shares = {"p50_ms": 50, "p99_ms": 99, "worst_ms": 100}
            times = {
                name: round(1000 * float(np.percentile(self._encode_seconds, part)), 1) for name, part in shares.items()
            }
        pairs = zip(self._expected, self._expected[1:] + self._expected[:1], strict=True)
        return {
            "encoded": self.encoded,
            **times,
            "different": self._different,
            "recordings": len(self._expected),
            "distinguished": sum(not same_voice(one, other, share=self._share) for one, other in pairs),
            "failed": dict(self._failed),
        }

    async def _client(self, random: Random, deadline: float) -> None:
        while time.monotonic() < deadline:
            number, began = random.randrange(len(self._samples)), time.monotonic()
            try:
                voice = await self._encode(number)
            except EngineError as failure:
                self._failed[str(failure)] += 1
            else:
                self._encode_seconds.append(time.monotonic() - began)
                self._different += not same_voice(voice, self._expected[number], share=self._share)
            await asyncio.sleep(random.uniform(0, 0.2))

    async def _encode(self, number: int) -> Voice:
        samples = uncached(self._samples[number], next(self._numbers))
        return await self._engine.encode_reference(samples, SAMPLE_RATE, codes=self._codes[number])


def uncached(samples: NDArray[np.float32], number: int) -> NDArray[np.float32]:
    """Return the samples followed by zeros whose signs are the bits of ``number``."""
    zeros = np.where(number >> np.arange(_BITS) & 1, np.float32(-0.0), np.float32(0.0))
    return np.concatenate([samples, zeros])


def same_voice(voice: Voice, expected: Voice, *, share: float) -> bool:
    """Return whether two voices are equal: x-vectors of the same direction, and at least ``share`` of equal codes."""
    one, other = voice.embedding.astype(np.float64), expected.embedding.astype(np.float64)
    if not one @ other > _COSINE * np.linalg.norm(one) * np.linalg.norm(other):
        return False
    if voice.codes is None or expected.codes is None:
        return voice.codes is expected.codes
    return voice.codes.shape == expected.codes.shape and bool((voice.codes == expected.codes).mean() >= share)
