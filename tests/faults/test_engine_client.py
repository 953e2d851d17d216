"""The engine process and its client: disconnects leak nothing, and a killed process never causes a hang."""

import asyncio
import os
import signal
import threading
from dataclasses import replace

import numpy as np
import psutil
import pytest
import pytest_asyncio

from engine.client.client import EngineClient
from engine.client.process import AUDIO_WINDOW, EngineProcess
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.errors import EngineFailed, EngineUnavailable, RequestError
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest
from engine.worker import FRAME_WINDOW

pytestmark = pytest.mark.asyncio(loop_scope="module")
TIMEOUT = 60
PLACEMENTS = ["thread", "process"]


def config_for(folder, placement):
    return EngineConfig(
        model=str(folder),
        threads=1,
        talker=TalkerConfig(slots=16, context=1024),
        code2wav=Code2WavConfig(placement=placement, streams=24, dtype="int16"),
    )


@pytest_asyncio.fixture(params=PLACEMENTS, scope="module", loop_scope="module")
async def client(request, checkpoints):
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"], request.param))
    await engine.start()
    await engine.wait_ready(TIMEOUT)
    yield engine
    await engine.close()


def utterance(seed, frames=30, **more):
    sampling = SamplingParams(seed=seed, max_new_tokens=frames + 1, temperature=1.5, top_k=0)
    return SpeechRequest(f"one two three {seed}", speaker="ryan", sampling=sampling, **more)


def endless():
    """An utterance that ends only when its context is full: repeated codes become ever more likely."""
    sampling = SamplingParams(temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1, max_new_tokens=10_000)
    return SpeechRequest("one two three 1", speaker="ryan", sampling=sampling)


async def collect(stream):
    """Codes and samples of a complete utterance."""
    chunks = [chunk async for chunk in stream]
    return np.concatenate([c.codes for c in chunks]), np.concatenate([c.samples for c in chunks])


IN_USE = ("talker_slots", "talker_waiting", "code2wav_streams", "code2wav_rows", "client_streams")


async def until_idle(engine):
    """Wait until no stage has work; return the stage statistics."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            figures = await engine.stats(TIMEOUT)
            if not any(figures[name] for name in IN_USE):
                return figures
            await asyncio.sleep(0.01)


def resources(engine):
    """Resources of this process and of the engine: threads, file descriptors, names in /dev/shm."""
    workers = [psutil.Process(engine._worker.process.pid)]
    workers += workers[0].children(recursive=True)
    return (
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
        [(each.num_threads(), each.num_fds()) for each in workers],
        sorted(os.listdir("/dev/shm")),
    )


async def test_32_concurrent_utterances_equal_single_ones_and_cancelling_a_third_leaks_nothing(client):
    requests = [utterance(seed, frames=5 + seed) for seed in range(32)]
    alone = [await collect(client.submit(request)) for request in requests]
    await until_idle(client)
    before = resources(client)

    async def cancel_midway(stream):
        await anext(stream)
        await anext(stream)
        stream.cancel()

    streams = [client.submit(endless() if n % 3 == 0 else request) for n, request in enumerate(requests)]
    tasks = [cancel_midway(stream) if n % 3 == 0 else collect(stream) for n, stream in enumerate(streams)]
    results = await asyncio.wait_for(asyncio.gather(*tasks), TIMEOUT)
    for number, both in enumerate(results):
        if both is not None:
            assert np.array_equal(both[0], alone[number][0]), number
            assert np.array_equal(both[1], alone[number][1]), number
    await until_idle(client)
    assert resources(client) == before


async def test_an_utterance_in_large_chunks_equals_a_streamed_one(client):
    streamed = await collect(client.submit(utterance(3, frames=60)))
    offline = await collect(client.submit(utterance(3, frames=60, realtime=False)))
    assert np.array_equal(streamed[1], offline[1])


async def test_the_first_chunk_is_received_before_the_last_frame_is_generated(client):
    stream = client.submit(endless())
    await anext(stream)
    assert (await client.stats(TIMEOUT))["talker_slots"] == 1
    stream.cancel()
    await until_idle(client)


async def test_a_client_that_stops_reading_blocks_only_its_own_stream(client):
    stalled = client.submit(endless())
    await anext(stalled)
    for seed in range(3):
        await asyncio.wait_for(collect(client.submit(utterance(seed))), TIMEOUT)
    stalled.cancel()
    await until_idle(client)


async def test_cancelling_after_the_talker_has_finished_frees_code2wav(client):
    frames = AUDIO_WINDOW + FRAME_WINDOW // 2
    request = endless()
    sampling = replace(request.sampling, max_new_tokens=frames + 1)
    stream = client.submit(replace(request, sampling=sampling))
    async with asyncio.timeout(TIMEOUT):
        figures = await client.stats(TIMEOUT)
        while figures["talker_slots"] or figures["talker_waiting"]:
            figures = await client.stats(TIMEOUT)
    assert figures["code2wav_rows"] == 1
    assert client.open_streams == 1
    stream.cancel()
    await until_idle(client)


async def test_recordings_whose_callers_cancelled_are_still_answered(checkpoints):
    engine = EngineClient(config_for(checkpoints["0b6-base"], "thread"))
    await engine.start()
    try:
        await engine.wait_ready(TIMEOUT)
        recordings = np.random.default_rng(0).standard_normal((6, 240_000), np.float32) * 0.1
        tasks = [asyncio.create_task(engine.encode_reference(each, 24_000, codes=True)) for each in recordings]
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until_idle(engine)
        assert engine.open_streams == 0
        assert (await engine.encode_reference(recordings[1], 24_000, codes=True)).codes is not None
    finally:
        await engine.close()


async def test_a_waiting_reader_sees_the_end_of_a_cancelled_utterance(client):
    stream = client.submit(endless())
    await anext(stream)
    stream.cancel()
    async with asyncio.timeout(TIMEOUT):
        assert [chunk async for chunk in stream] == []
    assert stream.completion.finish_reason is FinishReason.CANCELLED
    assert [chunk async for chunk in stream] == []


async def test_a_stream_without_credit_can_be_cancelled(client):
    stream = client.submit(endless())
    async with asyncio.timeout(TIMEOUT):
        before = None
        while before is None or len(stream._responses._records._queue) != before:
            before = len(stream._responses._records._queue)
            await asyncio.sleep(0.5)
    assert (await client.stats(TIMEOUT))["talker_slots"] == 1
    stream.cancel()
    await until_idle(client)


async def test_refuses_values_that_would_corrupt_a_shared_step(client):
    running = client.submit(utterance(5))
    for invalid in (SamplingParams(seed=2**63), SamplingParams(temperature=float("nan")), SamplingParams(top_k=-5)):
        with pytest.raises(RequestError):
            await collect(client.submit(SpeechRequest("hello", speaker="ryan", sampling=invalid)))
    assert len((await collect(running))[0]) > 0


async def test_cancelling_at_once_and_twice(client):
    for _ in range(20):
        stream = client.submit(endless())
        stream.cancel()
        stream.cancel()
    await until_idle(client)


async def test_a_refused_request_does_not_affect_others(client):
    running = client.submit(utterance(5))
    with pytest.raises(RequestError) as refusal:
        await collect(client.submit(SpeechRequest("hello", speaker="nobody")))
    assert (refusal.value.code, refusal.value.param) == ("voice_not_found", "voice")
    assert len((await collect(running))[0]) > 0


async def test_refuses_a_prompt_longer_than_the_context(client):
    with pytest.raises(RequestError) as refusal:
        await collect(client.submit(SpeechRequest("one two " * 2000, speaker="ryan")))
    assert (refusal.value.code, refusal.value.param) == ("input_too_long", "input")


async def test_a_killed_engine_fails_its_streams_and_is_restarted(client):
    expected = await collect(client.submit(utterance(2)))
    streams = [client.submit(endless()) for _ in range(3)]
    for stream in streams:
        await anext(stream)
    worker = client._worker.process
    worker.send_signal(signal.SIGKILL)
    for stream in streams:
        with pytest.raises(EngineFailed) as failure:
            await asyncio.wait_for(collect(stream), TIMEOUT)
        assert failure.value.code == "engine_lost"
        assert not client.accepting
    assert client.open_streams == 0
    with pytest.raises(EngineUnavailable):
        client.submit(utterance(1))
    await client.wait_ready(TIMEOUT)
    after_restart = await collect(client.submit(utterance(2)))
    assert np.array_equal(after_restart[1], expected[1])


@pytest.mark.parametrize("client", ["process"], indirect=True)
async def test_a_killed_code2wav_process_fails_its_streams_and_is_restarted(client):
    stream = client.submit(endless())
    await anext(stream)
    [code2wav] = psutil.Process(client._worker.process.pid).children()
    code2wav.kill()
    with pytest.raises(EngineFailed):
        await asyncio.wait_for(collect(stream), TIMEOUT)
    assert not client.accepting
    await client.wait_ready(TIMEOUT)
    await asyncio.wait_for(collect(client.submit(utterance(1))), TIMEOUT)


async def test_a_failed_restart_is_retried(client, monkeypatch):
    starts = []

    def start(*arguments):
        starts.append(arguments)
        if len(starts) == 1:
            raise OSError("no process can be started")
        return EngineProcess(*arguments)

    monkeypatch.setattr("engine.client.client.EngineProcess", start)
    client._worker.process.kill()
    async with asyncio.timeout(TIMEOUT):
        while client.state == "ready":
            await asyncio.sleep(0.01)
    await client.wait_ready(TIMEOUT)
    assert len(starts) == 2
    await collect(client.submit(utterance(1)))


async def test_the_tokenizer_has_no_threads_of_its_own_which_would_compete_for_the_cores(client):
    assert psutil.Process(client._worker.process.pid).environ()["TOKENIZERS_PARALLELISM"] == "false"


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_closing_leaves_no_process_thread_descriptor_or_shared_memory(placement, checkpoints):
    def own_resources():
        return threading.active_count(), len(os.listdir("/proc/self/fd")), sorted(os.listdir("/dev/shm"))

    await asyncio.to_thread(lambda: None)
    before = own_resources()
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"], placement))
    await engine.start()
    await engine.wait_ready(TIMEOUT)
    family = psutil.Process(engine._worker.process.pid)
    family = [family, *family.children(recursive=True)]
    stream = engine.submit(endless())
    await anext(stream)
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await collect(stream)
    assert not [process for process in family if process.is_running() and process.status() != "zombie"]
    assert own_resources()[1:] == before[1:]
    assert own_resources()[0] <= before[0] + 1  # the event loop keeps one thread for to_thread


async def test_a_folder_that_is_not_a_checkpoint_is_a_permanent_failure(tmp_path):
    engine = EngineClient(config_for(tmp_path, "thread"))
    await engine.start()
    try:
        with pytest.raises(Exception, match=r"config\.json"):
            await engine.wait_ready(TIMEOUT)
        assert engine.state == "failed"
        with pytest.raises(Exception, match=r"config\.json"):
            engine.submit(utterance(1))
    finally:
        await engine.close()
