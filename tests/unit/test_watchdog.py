"""The watchdog with probes that are answered, answered late, or never answered."""

import asyncio
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from engine.client.stream import ResponseQueue
from engine.client.watchdog import Watchdog
from engine.config import EngineConfig, TalkerConfig
from engine.errors import EngineFailed, EngineUnavailable
from engine.protocol.messages import RequestKind, unpack_request
from engine.protocol.request import AudioChunk, Completion, EngineInfo, FinishReason
from engine.transfer import Kind, Record

INFO = EngineInfo("m", ("CustomVoice",), ("ryan",), ("english",), None, False, True, 64, "cpu")
NO_LINK = SimpleNamespace(
    requests=SimpleNamespace(fail=lambda number: None),
    audio=SimpleNamespace(cancel=lambda number: None),
    deferred=SimpleNamespace(release=lambda number, units: None, end=lambda number: None),
)


class Engine:
    """An engine that answers probes and utterances as configured."""

    def __init__(self, stall_seconds):
        self.inboxes, self.killed, self.in_flight = {}, [], 0
        self.answers, self.generates, self.utterances, self.frames = True, True, 0, 2
        self.stats = {}
        config = EngineConfig(model="m", stall_seconds=stall_seconds, talker=TalkerConfig(slots=2))
        self.watchdog = Watchdog(config, INFO, self.open, lambda: self.in_flight, self.kill)

    def kill(self, reason, message):
        self.killed.append(reason)

    def open(self, payload):
        number = len(self.inboxes)
        inbox = self.inboxes[number] = ResponseQueue(number, NO_LINK, {})
        if unpack_request(payload)[0] is RequestKind.PROBE:
            if self.answers:
                inbox.put(Record(number, Kind.END, 1, 0, 0.0, json.dumps({"n": number, **self.stats}).encode()))
            return inbox
        self.utterances += 1
        if self.generates:
            codes, samples = np.zeros((1, 2, 16), np.int16), np.zeros((1, 2 * 1920), np.int16)
            inbox.put(Record(number, Kind.DATA, 1, 2, 0.0, AudioChunk.all_to_bytes(samples, codes)[0]))
            end = Completion(FinishReason.LENGTH, 1, self.frames)
            inbox.put(Record(number, Kind.END, 2, 0, 0.0, end.to_bytes()))
        else:
            inbox.put(Record(number, Kind.FAIL, 1, 0, 0.0, EngineFailed("broken").to_bytes()))
        return inbox

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)


@pytest.fixture
async def engine():
    engines = []

    def make(stall_seconds=20.0):
        engines.append(Engine(stall_seconds))
        return engines[0]

    yield make
    engines[0].watchdog.close()


def is_healthy(engine):
    try:
        engine.watchdog.raise_if_unhealthy()
    except EngineUnavailable:
        return False
    return True


async def test_a_pipeline_that_does_not_answer_is_stalled_and_then_killed(engine):
    engine = engine(stall_seconds=0.4)
    await engine.until(lambda: engine.watchdog.stats is not None)
    engine.answers = False
    await engine.until(lambda: not is_healthy(engine))
    with pytest.raises(EngineUnavailable) as failure:
        engine.watchdog.raise_if_unhealthy()
    assert failure.value.code == "engine_stalled"
    await engine.until(lambda: engine.killed)
    assert engine.killed == ["stalled"]


async def test_time_while_this_process_was_suspended_does_not_count(engine):
    engine = engine(stall_seconds=0.4)
    engine.answers = False
    await asyncio.sleep(0.15)
    time.sleep(1.0)  # simulates a suspended machine, including the engine
    engine.answers = True
    engine.watchdog._probe.cancel()
    await asyncio.sleep(0.15)
    assert await engine.watchdog.fresh_stats()
    assert engine.killed == []


async def test_callers_share_a_probe_started_after_their_call(engine):
    engine = engine()
    first = await asyncio.gather(*(engine.watchdog.fresh_stats() for _ in range(5)))
    second = await engine.watchdog.fresh_stats()
    assert len({each["n"] for each in first}) == 1
    assert second["n"] > first[0]["n"]


async def test_a_readiness_check_starts_a_model_check_unless_all_slots_may_be_in_use(engine, monkeypatch):
    engine = engine()
    engine.watchdog.check_if_idle()  # audio was produced, or the engine started, a moment ago
    monkeypatch.setattr("engine.client.watchdog._IDLE_SECONDS", 0.0)
    engine.in_flight = 2
    engine.watchdog.check_if_idle()
    await asyncio.sleep(0)
    assert engine.utterances == 0
    engine.in_flight = 1
    engine.watchdog.check_if_idle()
    await engine.until(lambda: engine.utterances == 1)


async def test_models_that_hang_are_detected_while_requests_are_submitted(engine, monkeypatch):
    monkeypatch.setattr("engine.client.watchdog._IDLE_SECONDS", 0.0)
    monkeypatch.setattr("engine.client.watchdog._LONG_IDLE_SECONDS", 0.0)
    monkeypatch.setattr("engine.client.watchdog._RETRY_SECONDS", 0.05)
    engine = engine()
    engine.generates = False
    engine.in_flight = 1
    engine.watchdog.check_if_idle()
    engine.watchdog.request_submitted()
    await engine.until(lambda: engine.killed)
    assert engine.killed == ["failed"]


@pytest.mark.parametrize("fault", [{"generates": False}, {"frames": 3}], ids=["fails", "wrong size"])
async def test_failed_model_checks_make_the_engine_unready_and_three_in_a_row_end_it(engine, fault, monkeypatch):
    monkeypatch.setattr("engine.client.watchdog._RETRY_SECONDS", 0.05)
    engine = engine()
    vars(engine).update(fault)
    engine.watchdog.request_failed()
    assert is_healthy(engine)  # the request itself may have been at fault
    await engine.until(lambda: not is_healthy(engine))
    await engine.until(lambda: engine.killed)
    assert (engine.killed, engine.utterances) == (["failed"], 3)


async def test_a_request_that_fails_alone_leaves_the_engine_ready(engine):
    engine = engine()
    for _ in range(5):
        engine.watchdog.request_failed()
        await engine.until(engine.watchdog._model_check_task.done)
        assert is_healthy(engine)
    assert engine.killed == []


async def test_audio_of_a_request_resets_the_failed_checks(engine):
    engine = engine()
    engine.generates = False
    engine.watchdog.request_failed()
    await engine.until(lambda: not is_healthy(engine))
    engine.watchdog.audio_received()
    assert is_healthy(engine)
    await engine.until(engine.watchdog._model_check_task.done)
    assert engine.killed == []


async def test_slots_that_other_processes_use_are_not_free_for_a_model_check(engine, monkeypatch):
    monkeypatch.setattr("engine.client.watchdog._IDLE_SECONDS", 0.0)
    engine = engine(stall_seconds=0.4)
    engine.stats = {"talker_slots": 1, "talker_waiting": 1}
    await engine.until(lambda: engine.watchdog.stats is not None)
    engine.watchdog.check_if_idle()
    await asyncio.sleep(0)
    assert engine.utterances == 0
    engine.stats = {"talker_slots": 1, "talker_waiting": 0}
    await engine.watchdog.fresh_stats()
    engine.watchdog.check_if_idle()
    await engine.until(lambda: engine.utterances == 1)


async def test_audio_that_other_processes_receive_after_a_failure_shows_that_the_models_work(engine, monkeypatch):
    monkeypatch.setattr("engine.client.watchdog._RETRY_SECONDS", 60.0)
    engine = engine(stall_seconds=0.4)
    engine.generates = False
    engine.stats = {"code2wav_chunks": 7}
    await engine.until(lambda: engine.watchdog.stats is not None)
    engine.watchdog.request_failed()
    await engine.until(lambda: engine.utterances)
    await engine.watchdog.fresh_stats()
    assert engine.watchdog.suspect
    engine.stats = {"code2wav_chunks": 8}
    await engine.until(lambda: not engine.watchdog.suspect)
    engine.watchdog.raise_if_unhealthy()
