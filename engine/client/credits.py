"""Returns the credit of consumed audio to the engine, in batches. Imports no torch."""

from __future__ import annotations

import asyncio
from collections import Counter

from engine.transfer import Endpoint

_BATCH_SECONDS = 0.02
"""How long returned credit is collected. It is far less than the credit of a stream, which is 10 s of audio."""


class CreditBatch:
    """Collects the credit that is released in 20 ms and sends it at once, so that it seldom wakes the engine."""

    def __init__(self, audio: Endpoint) -> None:
        self._audio = audio
        self._units: Counter[int] = Counter()

    def add(self, stream: int, units: int) -> None:
        """Return ``units`` of credit to the producer of a stream. Call this in the event loop."""
        if not self._units:
            asyncio.get_running_loop().call_later(_BATCH_SECONDS, self._send)
        self._units[stream] += units

    def _send(self) -> None:
        units, self._units = self._units, Counter()
        self._audio.release_all(units.items())
