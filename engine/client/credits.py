"""Returns credit for consumed audio to the engine, batched per event loop iteration. Imports no torch."""

from __future__ import annotations

import asyncio

from engine.transfer import Endpoint


class CreditBatch:
    """Gathers what is taken in one turn of the event loop, and tells it at once: the engine is woken once for it."""

    def __init__(self, audio: Endpoint) -> None:
        self._audio = audio
        self._units: list[tuple[int, int]] = []

    def add(self, stream: int, units: int) -> None:
        """Received data of a stream was taken: its producer may send as much again. To be called in the event loop."""
        if not self._units:
            asyncio.get_running_loop().call_soon(self._tell)
        self._units.append((stream, units))

    def _tell(self) -> None:
        units, self._units = self._units, []
        self._audio.release_all(units)
