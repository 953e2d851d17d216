"""The engine process under its client: nothing is lost when requests leave, nothing hangs when a process dies."""

import asyncio
import os
import signal
import threading
from dataclasses import replace

import numpy as np
import psutil
import pytest

from engine.client.client import EngineClient
from engine.client.process import AUDIO_WINDOW, EngineProcess
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.errors import EngineFailed, EngineUnavailable, RequestError
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest
from engine.worker import FRAME_WINDOW

PATIENCE = 60
PLACEMENTS = ["thread", "process"]


def config_for(folder, placement):
    return EngineConfig(
        model=str(folder),
        threads=1,
        talker=TalkerConfig(slots=16, context=1024),
        code2wav=Code2WavConfig(placement=placement, streams=24),
    )


@pytest.fixture(params=PLACEMENTS)
async def client(request, checkpoints):
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"], request.param))
    await engine.start()
    await engine.wait_ready(PATIENCE)
    yield engine
    await engine.close()


def utterance(seed, frames=30, **more):
    sampling = SamplingParams(seed=seed, max_new_tokens=frames + 1, temperature=1.5, top_k=0)
    return SpeechRequest(f"one two three {seed}", speaker="ryan", sampling=sampling, **more)


def endless():
    """An utterance that ends only with its context: what was said once is likelier ever after."""
    sampling = SamplingParams(temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1, max_new_tokens=10_000)
    return SpeechRequest("one two three 1", speaker="ryan", sampling=sampling)


async def listen(stream):
    """Codes and samples of a whole utterance."""
    chunks = [chunk async for chunk in stream]
    return np.concatenate([c.codes for c in chunks]), np.concatenate([c.samples for c in chunks])


BUSY = ("talker_slots", "talker_waiting", "code2wav_streams", "code2wav_rows", "client_streams")


async def settled(engine):
    """Stage figures once no stage works on anything any more."""
    async with asyncio.timeout(PATIENCE):
        while True:
            figures = await engine.stats(PATIENCE)
            if not any(figures[name] for name in BUSY):
                return figures
            await asyncio.sleep(0.01)


def resources(engine):
    """What this process and the engine's hold: threads, file descriptors, names in /dev/shm."""
    workers = [psutil.Process(engine._worker.process.pid)]
    workers += workers[0].children(recursive=True)
    return (
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
        [(each.num_threads(), each.num_fds()) for each in workers],
        sorted(os.listdir("/dev/shm")),
    )


async def test_32_at_once_speak_as_alone_and_cancelling_a_third_leaves_nothing_behind(client):
    requests = [utterance(seed, frames=5 + seed) for seed in range(32)]
    alone = [await listen(client.submit(request)) for request in requests]
    await settled(client)
    before = resources(client)

    async def leave_midway(stream):
        await anext(stream)
        await anext(stream)
        stream.cancel()

    streams = [client.submit(endless() if n % 3 == 0 else request) for n, request in enumerate(requests)]
    tasks = [leave_midway(stream) if n % 3 == 0 else listen(stream) for n, stream in enumerate(streams)]
    heard = await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
    for number, both in enumerate(heard):
        if both is not None:
            assert np.array_equal(both[0], alone[number][0]), number
            assert np.array_equal(both[1], alone[number][1]), number
    await settled(client)
    assert resources(client) == before


async def test_an_utterance_in_large_chunks_has_the_samples_of_a_streamed_one(client):
    streamed = await listen(client.submit(utterance(3, frames=60)))
    whole = await listen(client.submit(utterance(3, frames=60, realtime=False)))
    assert np.array_equal(streamed[1], whole[1])


async def test_the_first_chunk_comes_before_the_last_frame_is_made(client):
    stream = client.submit(endless())
    await anext(stream)
    assert (await client.stats(PATIENCE))["talker_slots"] == 1
    stream.cancel()
    await settled(client)


async def test_a_listener_that_stops_listening_stops_its_own_stream_only(client):
    stalled = client.submit(endless())
    await anext(stalled)
    for seed in range(3):
        await asyncio.wait_for(listen(client.submit(utterance(seed))), PATIENCE)
    stalled.cancel()
    await settled(client)


async def test_leaving_after_the_talker_is_done_but_not_the_listener(client):
    frames = AUDIO_WINDOW + FRAME_WINDOW // 2
    request = endless()
    sampling = replace(request.sampling, max_new_tokens=frames + 1)
    stream = client.submit(replace(request, sampling=sampling))
    async with asyncio.timeout(PATIENCE):
        figures = await client.stats(PATIENCE)
        while figures["talker_slots"] or figures["talker_waiting"]:
            figures = await client.stats(PATIENCE)
    assert figures["code2wav_rows"] == 1
    assert client.open_streams == 1
    stream.cancel()
    await settled(client)


async def test_a_recording_nobody_waits_for_is_answered_all_the_same(checkpoints):
    engine = EngineClient(config_for(checkpoints["0b6-base"], "thread"))
    await engine.start()
    try:
        await engine.wait_ready(PATIENCE)
        recordings = np.random.default_rng(0).standard_normal((6, 240_000), np.float32) * 0.1
        tasks = [asyncio.create_task(engine.encode_reference(each, 24_000, codes=True)) for each in recordings]
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await settled(engine)
        assert engine.open_streams == 0
        assert (await engine.encode_reference(recordings[1], 24_000, codes=True)).codes is not None
    finally:
        await engine.close()


async def test_who_waits_for_a_chunk_learns_that_the_utterance_was_given_up(client):
    stream = client.submit(endless())
    await anext(stream)
    stream.cancel()
    async with asyncio.timeout(PATIENCE):
        assert [chunk async for chunk in stream] == []
    assert stream.completion.finish_reason is FinishReason.CANCELLED
    assert [chunk async for chunk in stream] == []


async def test_a_stream_out_of_credit_can_be_given_up(client):
    stream = client.submit(endless())
    async with asyncio.timeout(PATIENCE):
        before = None
        while before is None or len(stream._responses._records._queue) != before:
            before = len(stream._responses._records._queue)
            await asyncio.sleep(0.5)
    assert (await client.stats(PATIENCE))["talker_slots"] == 1
    stream.cancel()
    await settled(client)


async def test_values_that_would_spoil_a_shared_step_are_refused(client):
    running = client.submit(utterance(5))
    for spoilt in (SamplingParams(seed=2**63), SamplingParams(temperature=float("nan")), SamplingParams(top_k=-5)):
        with pytest.raises(RequestError):
            await listen(client.submit(SpeechRequest("hello", speaker="ryan", sampling=spoilt)))
    assert len((await listen(running))[0]) > 0


async def test_leaving_at_once_and_leaving_twice(client):
    for _ in range(20):
        stream = client.submit(endless())
        stream.cancel()
        stream.cancel()
    await settled(client)


async def test_a_refused_request_harms_nobody(client):
    running = client.submit(utterance(5))
    with pytest.raises(RequestError) as refusal:
        await listen(client.submit(SpeechRequest("hello", speaker="nobody")))
    assert (refusal.value.code, refusal.value.param) == ("voice_not_found", "voice")
    assert len((await listen(running))[0]) > 0


async def test_a_prompt_longer_than_the_context_is_refused(client):
    with pytest.raises(RequestError) as refusal:
        await listen(client.submit(SpeechRequest("one two " * 2000, speaker="ryan")))
    assert (refusal.value.code, refusal.value.param) == ("input_too_long", "input")


async def test_a_killed_engine_fails_its_streams_and_comes_back(client):
    expected = await listen(client.submit(utterance(2)))
    streams = [client.submit(endless()) for _ in range(3)]
    for stream in streams:
        await anext(stream)
    worker = client._worker.process
    worker.send_signal(signal.SIGKILL)
    for stream in streams:
        with pytest.raises(EngineFailed) as failure:
            await asyncio.wait_for(listen(stream), PATIENCE)
        assert failure.value.code == "engine_lost"
    assert client.open_streams == 0
    async with asyncio.timeout(PATIENCE):
        while client.state == "ready":
            await asyncio.sleep(0.01)
    with pytest.raises(EngineUnavailable):
        client.submit(utterance(1))
    await client.wait_ready(PATIENCE)
    again = await listen(client.submit(utterance(2)))
    assert np.array_equal(again[1], expected[1])


async def test_a_killed_code2wav_process_fails_its_streams_and_comes_back(checkpoints):
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"], "process"))
    await engine.start()
    try:
        await engine.wait_ready(PATIENCE)
        stream = engine.submit(endless())
        await anext(stream)
        [code2wav] = psutil.Process(engine._worker.process.pid).children()
        code2wav.kill()
        with pytest.raises(EngineFailed):
            await asyncio.wait_for(listen(stream), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while engine.state == "ready":
                await asyncio.sleep(0.01)
        await engine.wait_ready(PATIENCE)
        await asyncio.wait_for(listen(engine.submit(utterance(1))), PATIENCE)
    finally:
        await engine.close()


async def test_a_restart_is_tried_again_where_no_process_can_be_started(client, monkeypatch):
    starts = []

    def start(*arguments):
        starts.append(arguments)
        if len(starts) == 1:
            raise OSError("no process can be started")
        return EngineProcess(*arguments)

    monkeypatch.setattr("engine.client.client.EngineProcess", start)
    client._worker.process.kill()
    async with asyncio.timeout(PATIENCE):
        while client.state == "ready":
            await asyncio.sleep(0.01)
    await client.wait_ready(PATIENCE)
    assert len(starts) == 2
    await listen(client.submit(utterance(1)))


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_closing_leaves_no_process_thread_descriptor_or_shared_memory(placement, checkpoints):
    def held():
        return threading.active_count(), len(os.listdir("/proc/self/fd")), sorted(os.listdir("/dev/shm"))

    await asyncio.to_thread(lambda: None)
    before = held()
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"], placement))
    await engine.start()
    await engine.wait_ready(PATIENCE)
    family = psutil.Process(engine._worker.process.pid)
    family = [family, *family.children(recursive=True)]
    stream = engine.submit(endless())
    await anext(stream)
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await listen(stream)
    assert not [process for process in family if process.is_running() and process.status() != "zombie"]
    assert held()[1:] == before[1:]
    assert held()[0] <= before[0] + 1  # the event loop keeps one thread for to_thread


async def test_a_folder_that_is_no_checkpoint_is_said_once_and_for_good(tmp_path):
    engine = EngineClient(config_for(tmp_path, "thread"))
    await engine.start()
    try:
        with pytest.raises(Exception, match=r"config\.json"):
            await engine.wait_ready(PATIENCE)
        assert engine.state == "failed"
        with pytest.raises(Exception, match=r"config\.json"):
            engine.submit(utterance(1))
    finally:
        await engine.close()
