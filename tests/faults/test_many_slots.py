"""More slots than the default has: whoever has a slot is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from engine.client.client import EngineClient
from engine.config import EngineConfig, TalkerConfig
from engine.protocol.request import SamplingParams, SpeechRequest

PATIENCE = 60.0
SLOTS = 20


async def test_every_slot_is_heard_while_all_of_them_speak(checkpoints: Mapping[str, Path]) -> None:
    talker = TalkerConfig(slots=SLOTS, context=512)
    engine = EngineClient(EngineConfig(model=str(checkpoints["pocket"]), device="cpu", threads=1, talker=talker))
    await engine.start()
    try:
        await engine.wait_ready(PATIENCE)
        steady = SamplingParams(temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1, max_new_tokens=400)
        request = SpeechRequest("one two three", speaker="vivian", sampling=steady)
        streams = [engine.submit(request) for _ in range(SLOTS)]
        first = await asyncio.wait_for(asyncio.gather(*(anext(stream) for stream in streams)), PATIENCE)
        assert all(len(chunk.samples) for chunk in first)
        for stream in streams:
            stream.cancel()
    finally:
        await engine.close()
