"""Two real engines behind one pool: one is killed, stopped or broken, and no request without audible audio is lost."""

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
import pytest_asyncio

from engine.config import EngineConfig
from engine.errors import EngineFailed, EngineUnavailable, PoisonRequest
from engine.pool.pool import EnginePool
from engine.protocol.request import SamplingParams, SpeechRequest
from tests.faults.breakable import spawn
from tests.faults.broken_worker import POISON
from tests.server.serving import engine_settings
from tests.support.random_checkpoint import RandomCheckpoints

pytestmark = pytest.mark.asyncio(loop_scope="module")
TIMEOUT = 100
SEEDS = range(4)
STALL_SECONDS = 4


class Broken:
    """Breaks parts of single engines."""

    def __init__(self, folder):
        self._folder = folder

    def part(self, name, process):
        return Path(self._folder, f"{name}.{process.pid}")


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("broken")
        patch.setenv("BROKEN_PARTS", str(folder))
        patch.setattr("engine.client.process.spawn", spawn)
        yield Broken(folder)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return RandomCheckpoints(tmp_path_factory.mktemp("checkpoints"))["0b6-custom_voice"]


def config_for(checkpoint, **more):
    return EngineConfig(**engine_settings(checkpoint, talker={"slots": 4, "context": 1024}, **more))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(checkpoint, broken):
    pool = EnginePool([config_for(checkpoint, stall_seconds=STALL_SECONDS)] * 2, load_seconds=TIMEOUT)
    await pool.start()
    await until_ready(pool)
    yield pool
    await pool.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone(pool):
    """The codes of each request, spoken alone."""
    return {seed: await codes_of(pool.submit(utterance(seed))) for seed in SEEDS}


def utterance(seed, frames=6, **more):
    sampling = SamplingParams(seed=seed, max_new_tokens=frames + 1, temperature=1.5, top_k=0)
    return SpeechRequest(f"one two three {seed}", speaker="ryan", sampling=sampling, **more)


def endless():
    sampling = SamplingParams(temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1, max_new_tokens=1000)
    return SpeechRequest("one two three 1", speaker="ryan", sampling=sampling)


async def codes_of(stream):
    async with asyncio.timeout(TIMEOUT):
        return np.concatenate([chunk.codes async for chunk in stream])


async def until(condition):
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.01)


async def until_ready(pool):
    await until(lambda: all(member.accepting and not member.suspect for member in pool.engines.values()))


def process_of(member):
    return member.client._worker.process


async def submit_to_both(pool, requests):
    """Submit requests, and record which engines they get."""
    used = [[] for _ in requests]
    on_engine = [lambda name, moved, own=own: own.append((name, moved)) for own in used]
    streams = [pool.submit(each, on_engine=call) for each, call in zip(requests, on_engine, strict=True)]
    assert {own[0][0] for own in used} == {"0", "1"}
    return streams, used


def preferred(pool):
    """The engine that gets the requests of the only voice while there are few."""
    stream = pool.submit(endless())
    stream.cancel()
    return stream._member.name


def live(pool):
    stream = pool.submit(utterance(7, live=True))
    stream.append(" four five")
    stream.append(" six", last=True)
    return stream


async def check_all_are_moved(pool, alone, streams, used, lost):
    """All streams have the codes that they have alone, and those of the engine ``lost`` came from the other one."""
    for seed, codes in zip(SEEDS, await asyncio.gather(*map(codes_of, streams)), strict=True):
        assert np.array_equal(codes, alone[seed])
    other = {"0": "1", "1": "0"}[lost]
    assert {tuple(own) for own in used} == {((lost, False), (other, True)), ((other, False),)}
    await until_ready(pool)


async def test_a_killed_engine_loses_only_what_is_audible_and_the_rest_has_the_same_codes(pool, alone):
    expected = await codes_of(live(pool))
    lost = pool.engines[preferred(pool)]
    audible = pool.submit(endless())
    await anext(audible)
    process_of(lost).send_signal(signal.SIGSTOP)
    text_so_far = pool.submit(utterance(7, live=True))
    text_so_far.append(" four five")
    streams, used = await submit_to_both(pool, [utterance(seed) for seed in SEEDS])
    process_of(lost).kill()
    with pytest.raises(EngineFailed) as failure:
        await codes_of(audible)
    assert failure.value.code == "engine_lost"
    receiving = asyncio.create_task(codes_of(text_so_far))
    await check_all_are_moved(pool, alone, streams, used, lost.name)
    text_so_far.append(" six", last=True)
    assert np.array_equal(await receiving, expected)
    assert pool.restarts == {"crashed": 1, "stalled": 0, "failed": 0}


async def test_requests_of_a_stopped_engine_are_moved_before_it_is_killed(pool, alone):
    process_of(pool.engines["1"]).send_signal(signal.SIGSTOP)
    streams, used = await submit_to_both(pool, [utterance(seed) for seed in SEEDS])
    await check_all_are_moved(pool, alone, streams, used, "1")
    assert pool.engines["1"].restarts["stalled"] == 1


async def test_requests_of_an_engine_that_fails_everything_are_moved_and_it_is_restarted(pool, alone, broken):
    before = sum(pool.restarts.values())
    first = process_of(pool.engines["0"])
    broken.part("code2wav", first).touch()
    streams, used = await submit_to_both(pool, [utterance(seed) for seed in SEEDS])
    await check_all_are_moved(pool, alone, streams, used, "0")
    assert not psutil.pid_exists(first.pid)
    assert sum(pool.restarts.values()) == before + 1


async def test_a_request_that_kills_two_engines_is_refused_and_both_are_restarted(pool, alone):
    before = pool.restarts["crashed"]
    with pytest.raises(PoisonRequest):
        await codes_of(pool.submit(utterance(POISON)))
    await until(lambda: pool.restarts["crashed"] == before + 2)
    await until_ready(pool)
    assert np.array_equal(await codes_of(pool.submit(utterance(0))), alone[0])


async def test_requests_of_one_voice_get_the_same_engine_until_it_has_too_many(pool):
    first = [pool.submit(endless())._member.name for _ in range(2)]
    assert len(set(first)) == 1
    assert {pool.submit(endless())._member.name for _ in range(4)} == {"0", "1"}
    for streams in pool._unheard.values():
        for stream in list(streams):
            stream.cancel()
    await until(lambda: not any(each.client.open_streams for each in pool.engines.values()))


async def test_a_single_engine_is_waited_for_and_unloaded_when_idle(checkpoint, broken, alone):
    capacities = []
    pool = EnginePool([config_for(checkpoint)], load_seconds=TIMEOUT, keep_alive=1.0, on_capacity=capacities.append)
    await pool.start()
    try:
        await pool.wait_ready(TIMEOUT)
        lost = process_of(pool.engines["0"])
        os.kill(lost.pid, signal.SIGSTOP)
        stream, cancelled = pool.submit(utterance(0)), pool.submit(utterance(1))
        lost.kill()
        await until(lambda: not pool.engines["0"].accepting)
        cancelled.cancel()
        codes, end = await asyncio.gather(codes_of(stream), anext(cancelled, None))
        assert np.array_equal(codes, alone[0])
        assert end is None
        assert set(capacities) == {1.0}

        unloaded = process_of(pool.engines["0"])
        await until(lambda: not psutil.pid_exists(unloaded.pid))
        pool.check_accepting()
        assert pool.info.speakers
        assert await pool.stats(TIMEOUT) == {}
        assert np.array_equal(await codes_of(pool.submit(utterance(0))), alone[0])
        assert pool.restarts["crashed"] == 1
    finally:
        await pool.close()
    with pytest.raises(EngineUnavailable, match="closed"):
        pool.submit(utterance(0))
