"""An engine that exists but does not work is killed and replaced, and its streams fail."""

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

from engine.client.client import EngineClient
from engine.config import EngineConfig
from engine.errors import EngineFailed, EngineUnavailable
from engine.protocol.request import SamplingParams, SpeechRequest
from tests.faults.breakable import spawn
from tests.server.serving import engine_settings

TIMEOUT = 100


def config_for(folder, **more):
    return EngineConfig(**engine_settings(folder, talker={"slots": 2, "context": 1024}, **more))


def speech(frames):
    """An utterance of exactly ``frames`` frames: repeated codes become ever more likely."""
    sampling = SamplingParams(greedy=True, repetition_penalty=0.1, max_new_tokens=frames + 1)
    return SpeechRequest("one two three 1", speaker="ryan", sampling=sampling)


async def start_client(config):
    engine = EngineClient(config)
    await engine.start()
    await engine.wait_ready(TIMEOUT)
    return engine


async def until(condition):
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Start engine processes with fault injection; call the fixture with the part to break."""
    monkeypatch.setenv("BROKEN_PARTS", str(tmp_path))
    monkeypatch.setattr("engine.client.process.spawn", spawn)
    return lambda part: Path(tmp_path, part)


async def test_a_stopped_code2wav_process_is_killed_with_its_engine(checkpoints):
    placement = {"placement": "process"}
    engine = await start_client(config_for(checkpoints["0b6-custom_voice"], code2wav=placement, stall_seconds=2))
    try:
        stream = engine.submit(speech(10_000))
        await anext(stream)
        [code2wav] = psutil.Process(engine._worker.process.pid).children()
        code2wav.send_signal(signal.SIGSTOP)
        with pytest.raises(EngineFailed) as failure:
            async with asyncio.timeout(TIMEOUT):
                async for _ in stream:
                    pass
        assert failure.value.code == "engine_lost"
        with pytest.raises(EngineUnavailable):
            engine.submit(speech(2))
        await until(lambda: not psutil.pid_exists(code2wav.pid))
        await engine.wait_ready(TIMEOUT)
        assert engine.restarts == {"crashed": 0, "stalled": 1, "failed": 0}
        async with asyncio.timeout(TIMEOUT):
            assert [chunk async for chunk in engine.submit(speech(2))]
    finally:
        await engine.close()


async def test_a_hanging_restart_is_killed_and_a_hanging_encoder_replaced(checkpoints, broken, monkeypatch):
    engine = await start_client(config_for(checkpoints["0b6-base"]))
    try:
        first = engine._worker
        engine._config = engine._config.model_copy(update={"load_seconds": 1})
        first.process.kill()
        await until(lambda: engine._worker not in (None, first))
        hanging = engine._worker.process
        hanging.send_signal(signal.SIGSTOP)
        engine._config = engine._config.model_copy(update={"load_seconds": TIMEOUT, "stall_seconds": 4})
        await until(lambda: not psutil.pid_exists(hanging.pid))
        await engine.wait_ready(TIMEOUT)
        assert engine.restarts == {"crashed": 1, "stalled": 1, "failed": 0}

        monkeypatch.setattr("engine.client.voice_requests._TIMEOUT_STALLS", 0.05)
        recording = np.zeros(24_000, np.float32)
        broken("encoder").touch()
        with pytest.raises(EngineUnavailable, match="did not answer within 1 s"):
            await engine.encode_reference(recording, 24_000, codes=False)
        broken("encoder").unlink()
        await until(lambda: engine.state != "ready")
        await engine.wait_ready(TIMEOUT)
        monkeypatch.setattr("engine.client.voice_requests._TIMEOUT_STALLS", 6)
        await engine.encode_reference(recording, 24_000, codes=False)
        assert engine.restarts == {"crashed": 1, "stalled": 2, "failed": 0}
    finally:
        await engine.close()


async def test_an_engine_whose_models_produce_no_audio_does_not_become_ready(checkpoints, broken, monkeypatch):
    monkeypatch.setattr("engine.client.restarts._MAX_STARTS", 1)
    broken("code2wav").touch()
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"]))
    await engine.start()
    try:
        with pytest.raises(EngineFailed, match="before it was ready"):
            await engine.wait_ready(TIMEOUT)
        assert engine.state == "failed"
    finally:
        await engine.close()


async def test_closing_does_not_wait_for_an_engine_that_hangs_while_loading(checkpoints):
    engine = EngineClient(config_for(checkpoints["0b6-custom_voice"]))
    await engine.start()
    worker = engine._worker.process
    os.kill(worker.pid, signal.SIGSTOP)
    async with asyncio.timeout(10):  # killed at once; without the kill it takes 15 s
        await engine.close()
    assert worker.returncode == -signal.SIGKILL
