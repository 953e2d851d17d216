"""Returns the credit of consumed audio to the engine, batched per event loop iteration. Imports no torch."""

from __future__ import annotations

import asyncio

from engine.transfer import Endpoint


class CreditBatch:
    """Collects the credit released in one event loop iteration and sends it at once, to wake the engine only once."""

    def __init__(self, audio: Endpoint) -> None:
        self._audio = audio
        self._units: list[tuple[int, int]] = []

    def add(self, stream: int, units: int) -> None:
        """Return ``units`` of credit to the producer of a stream. Call this in the event loop."""
        if not self._units:
            asyncio.get_running_loop().call_soon(self._send)
        self._units.append((stream, units))

    def _send(self) -> None:
        units, self._units = self._units, []
        self._audio.release_all(units)
