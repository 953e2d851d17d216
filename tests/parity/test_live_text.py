"""Text appended to a running talker gives the same speech as the complete text."""

import asyncio
import random

import numpy as np
import pytest
import pytest_asyncio

from engine.client.client import EngineClient
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.errors import RequestError
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest, Voice
from tests.support.talkers import DEVICE, bit_for_bit

pytestmark = pytest.mark.asyncio(loop_scope="module")
TIMEOUT = 60
TEXT = "The quick brown fox jumps over the lazy dog, and she said she would be here by noon. It's 10:30 already!"


@pytest.fixture(scope="module")
def config(checkpoints):
    return EngineConfig(
        model=str(checkpoints["0b6-base"]),
        device=DEVICE.type,
        dtype="float32",
        threads=1,
        talker=TalkerConfig(engine="native", slots=2, context=1024),
        code2wav=Code2WavConfig(dtype="float32"),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(config):
    client = EngineClient(config)
    await client.start()
    await client.wait_ready(TIMEOUT)
    yield client
    await client.close()


def voice(codes=None):
    embedding = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    return Voice(embedding, codes, None if codes is None else "one two")


def request(text, live=False, frames=60):
    sampling = SamplingParams(seed=11, max_new_tokens=frames + 1)
    layout = None if live else "streaming"
    return SpeechRequest(text, voice=voice(), text_layout=layout, sampling=sampling, live=live)


async def collect(stream):
    chunks = [chunk async for chunk in stream]
    return np.concatenate([chunk.codes for chunk in chunks]), np.concatenate([chunk.samples for chunk in chunks])


@bit_for_bit
@pytest.mark.parametrize("seed", [None, 1, 2], ids=["character by character", "in pieces", "in other pieces"])
async def test_live_text_gives_the_codes_and_samples_of_the_complete_text(engine, seed):
    whole = engine.submit(request(TEXT))
    codes, samples = await collect(whole)
    live = engine.submit(request(TEXT[:11], live=True))
    position, rng = 11, random.Random(seed)
    while position < len(TEXT):
        end = position + 1 if seed is None else min(position + rng.randint(1, 9), len(TEXT))
        live.append(TEXT[position:end], last=end == len(TEXT))
        position = end
        if rng.random() < 0.3:
            await asyncio.sleep(0)
    live_codes, live_samples = await collect(live)
    assert np.array_equal(live_codes, codes)
    assert np.array_equal(live_samples, samples)
    assert live.completion == whole.completion


async def test_a_live_stream_waits_for_text_and_continues(engine):
    live = engine.submit(request("one two three", live=True))
    chunks = [await anext(live)]
    with pytest.raises(TimeoutError):
        while True:
            chunks.append(await asyncio.wait_for(anext(live), 1))
    waited = sum(len(chunk.codes) for chunk in chunks)
    assert waited < 30
    live.append(" four five six seven.", last=True)
    rest, _ = await collect(live)
    codes, _ = await collect(engine.submit(request("one two three four five six seven.")))
    assert np.array_equal(np.concatenate([*(chunk.codes for chunk in chunks), rest]), codes)


@bit_for_bit
async def test_text_for_a_queued_utterance_is_not_lost(engine):
    busy = [engine.submit(request(TEXT)) for _ in range(2)]
    live = engine.submit(request("one two ", live=True))
    live.append("three four five.", last=True)
    for stream in busy:
        await collect(stream)
    codes, _ = await collect(live)
    expected, _ = await collect(engine.submit(request("one two three four five.")))
    assert np.array_equal(codes, expected)


async def test_cancelling_while_waiting_for_text_frees_the_slot(engine):
    live = engine.submit(request("one two three", live=True))
    await anext(live)
    live.cancel()
    assert [chunk async for chunk in live] == []
    assert live.completion.finish_reason is FinishReason.CANCELLED
    live.append("too late", last=True)
    figures = await engine.stats(TIMEOUT)
    assert figures["talker_slots"] == figures["talker_waiting"] == 0


async def test_refuses_live_in_context_cloning_and_beginnings_without_a_word(engine):
    codes = np.zeros((4, 16), np.int64)
    for text, spoken_by in [("one two three", voice(codes)), ("one", voice()), ("", voice())]:
        with pytest.raises(RequestError):
            await collect(engine.submit(SpeechRequest(text, voice=spoken_by, live=True)))
