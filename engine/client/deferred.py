"""Sends records that are not urgent to the engine in batches. Imports no torch."""

from __future__ import annotations

import asyncio
from collections import Counter

from engine.transfer import Endpoint

_BATCH_SECONDS = 0.02
"""How long records are collected. It is far less than the credit of a stream, which is 10 s of audio."""


class DeferredRecords:
    """Collects the credit of consumed audio and the ends of requests for 20 ms, to wake the engine less often.

    Use it in one event loop.
    """

    def __init__(self, requests: Endpoint, audio: Endpoint) -> None:
        self._requests, self._audio = requests, audio
        self._credit: Counter[int] = Counter()
        self._ended: list[int] = []
        self._scheduled = False

    def release(self, stream: int, units: int) -> None:
        """Return ``units`` of credit to the producer of an audio stream."""
        self._credit[stream] += units
        self._schedule()

    def end(self, stream: int) -> None:
        """End a request stream whose request is over."""
        self._ended.append(stream)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(_BATCH_SECONDS, self._send)

    def _send(self) -> None:
        self._scheduled = False
        credit, self._credit = self._credit, Counter()
        ended, self._ended = self._ended, []
        for stream in ended:
            self._requests.end(stream)
        self._audio.release_all(credit.items())
