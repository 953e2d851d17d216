"""``python -m tests.support.scripted_server serve ...`` runs ``sonant serve ...`` with a stand-in for the engine.

It loads no checkpoint, so it starts in a second, and speaks a tone, paced four times as fast as playback.
The text of a request selects what happens: ``LATE`` in it delays the first audio until the client disconnects. While
the file ``SCRIPTED_LOST`` exists, requests fail as they do when the engine process ends before their first audio.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from engine.errors import EngineFailed
from engine.protocol.engine import OnEngine, ignore_engine
from engine.protocol.request import SAMPLE_RATE, AudioChunk, SpeechRequest
from server import app as application
from tests.support.scripted_engine import ScriptedEngine, ScriptedStream, good, info

LATE = "late"
SCRIPTED_LOST = "SCRIPTED_LOST"
"""Environment variable: path of the file."""
_PACE = 4.0
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
        super().__init__(description=info(trained=False, speakers=("ava", "emma")))

    @property
    def last_stats(self) -> dict[str, int]:
        return dict.fromkeys(_STATS, 0)

    async def stats(self, timeout: float) -> dict[str, int]:
        return self.last_stats

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> ScriptedStream:
        on_engine("0", False)
        return _PacedStream(request, good(request.text))


if __name__ == "__main__":
    application.engine_pool = lambda *_: PacedEngine()  # type: ignore[assignment]

    from server.cli.main import main

    main()
