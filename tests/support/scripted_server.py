"""``python -m tests.support.scripted_server serve ...`` runs ``sonant serve ...`` with a stand-in for the engine.

It loads no checkpoint, so it starts in a second, and speaks a tone, paced four times as fast as playback. Requests with
the sampling parameters ``LOOPING`` speak up to their limit. ``LATE`` in the text of a request delays the first audio
until the client disconnects. While the file ``SCRIPTED_LOST`` exists, requests fail as they do when the engine process
ends before their first audio.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineFailed
from engine.protocol.engine import OnEngine, ignore_engine
from engine.protocol.request import SAMPLE_RATE, AudioChunk, FinishReason, SpeechRequest, Voice
from server import app as application
from tests.support.scripted_engine import ScriptedEngine, ScriptedStream, Take, good, info

LATE = "late"
SCRIPTED_LOST = "SCRIPTED_LOST"
"""Environment variable: path of the file."""
_PACE = 4.0
_WIDTH = 4
_STATS = (
    "client_streams talker_slots talker_waiting talker_steps talker_step_rows code2wav_rows code2wav_batches "
    "code2wav_batch_rows frames_ring_used frames_ring_size audio_ring_used audio_ring_size reference_hits "
    "reference_misses context_hits context_misses"
).split()


class _PacedStream(ScriptedStream):
    """A ScriptedStream whose chunks arrive at ``_PACE`` times the speed of playback."""

    def __aiter__(self) -> AsyncIterator[AudioChunk]:  # type: ignore[override]
        return self._paced()

    async def __anext__(self) -> AudioChunk:
        if (lost := os.environ.get(SCRIPTED_LOST)) and Path(lost).exists():
            raise EngineFailed("the engine process ended unexpectedly", code="engine_lost")
        if LATE in self.request.text:
            await asyncio.Event().wait()
        if self.consumed:
            await asyncio.sleep(len(self._chunks[0].samples) / SAMPLE_RATE / _PACE)
        return await super().__anext__()

    async def _paced(self) -> AsyncIterator[AudioChunk]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return


class PacedEngine(ScriptedEngine):
    """An engine with the statistics of ``EngineClient``."""

    def __init__(self) -> None:
        speakers = ("ava", "emma", "ryan", "serena", "vivian")
        tasks = ("CustomVoice", "Base")
        super().__init__(description=info(trained=False, speakers=speakers, tasks=tasks, embedding_width=_WIDTH))

    @property
    def last_stats(self) -> dict[str, int]:
        return dict.fromkeys(_STATS, 0)

    async def stats(self, timeout: float) -> dict[str, int]:
        return self.last_stats

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> ScriptedStream:
        on_engine("0", False)
        self.check(request)
        return _PacedStream(request, _take(request))

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        return Voice(np.ones(_WIDTH, np.float32))


def _take(request: SpeechRequest) -> Take:
    """Good speech; for sampling parameters that repeat tokens, as much as the request allows."""
    sampling = request.sampling
    if sampling.max_new_tokens and (sampling.repetition_penalty or 1) < 1:
        return Take(sampling.max_new_tokens - 1, reason=FinishReason.LENGTH)
    return good(request.text)


if __name__ == "__main__":
    application.engine_pool = lambda *_: PacedEngine()  # type: ignore[assignment]

    from server.cli.main import main

    main()
