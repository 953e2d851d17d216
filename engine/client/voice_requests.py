"""Requests to the voice encoder of an engine. Imports no torch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.client.stream import ResponseQueue
from engine.cloning.resampling import resample
from engine.errors import EngineError, EngineUnavailable
from engine.protocol.messages import EncodeRequest, RequestKind, pack_request, unpack_voice
from engine.protocol.request import SAMPLE_RATE, Voice

Kill = Callable[[str], None]
OpenRequest = Callable[[bytes], tuple[ResponseQueue, Kill]]

_TIMEOUT_STALLS = 6
"""Timeout for encoding a recording of up to 30 s, as a multiple of ``stall_seconds``, queue included."""
_REFERENCE_SECONDS = 30.0
"""Recordings longer than this get proportionally more time."""


class VoiceRequests:
    """Asks the voice encoder, which works in a thread of its own and may hang alone.

    Args:
        stall_seconds: see ``EngineConfig``.
        open_request: sends a payload to the engine process, and returns the queue of its answer and a function that
            kills this process for a reason. Raises EngineUnavailable.
    """

    def __init__(self, stall_seconds: float, open_request: OpenRequest) -> None:
        self._stall_seconds, self._open_request = stall_seconds, open_request
        self._last_answer_at = 0.0

    async def encode(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None
    ) -> Voice:
        """Return the voice of a mono recording. Raises EngineError."""
        resampled = await asyncio.to_thread(resample, samples, sample_rate, SAMPLE_RATE)
        scale = max(1.0, len(resampled) / SAMPLE_RATE / _REFERENCE_SECONDS)
        payload = pack_request(RequestKind.ENCODE, EncodeRequest(resampled, codes).to_bytes())
        voice = await self._request(payload, scale)
        return Voice(voice.embedding, voice.codes, transcript)

    async def speaker(self, speaker: str) -> Voice:
        """Return a built-in speaker as a voice to clone. Raises EngineError."""
        return await self._request(pack_request(RequestKind.SPEAKER, speaker.encode()))

    async def _request(self, payload: bytes, scale: float = 1.0) -> Voice:
        """Send a request and wait for its answer. Kill the engine if it has answered no request in that time."""
        responses, kill = self._open_request(payload)
        started, timeout = time.monotonic(), scale * _TIMEOUT_STALLS * self._stall_seconds
        try:
            async with asyncio.timeout(timeout):
                answer = await responses.wait_for_end()
        except TimeoutError:
            if self._last_answer_at < started:
                kill(f"its reference encoder has not answered for {timeout:g} s")
            raise EngineUnavailable(
                f"the reference encoder did not answer within {timeout:g} s; retry later", code="engine_stalled"
            ) from None
        except EngineError:
            self._last_answer_at = time.monotonic()
            raise
        self._last_answer_at = time.monotonic()
        return unpack_voice(answer)
