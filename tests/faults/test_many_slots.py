"""More slots than the default: every slot gets audio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from engine.client.client import EngineClient
from engine.config import EngineConfig
from engine.protocol.request import SamplingParams, SpeechRequest
from tests.server.serving import engine_settings

TIMEOUT = 60.0
SLOTS = 20


async def test_all_slots_get_audio_at_the_same_time(checkpoints: Mapping[str, Path]) -> None:
    settings = engine_settings(checkpoints["pocket"], talker={"slots": SLOTS, "context": 512})
    engine = EngineClient(EngineConfig(**settings))
    await engine.start()
    try:
        await engine.wait_ready(TIMEOUT)
        looping = SamplingParams(temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1, max_new_tokens=400)
        request = SpeechRequest("one two three", speaker="vivian", sampling=looping)
        streams = [engine.submit(request) for _ in range(SLOTS)]
        first = await asyncio.wait_for(asyncio.gather(*(anext(stream) for stream in streams)), TIMEOUT)
        assert all(len(chunk.samples) for chunk in first)
        for stream in streams:
            stream.cancel()
    finally:
        await engine.close()
