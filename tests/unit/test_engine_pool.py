"""The routing of an engine pool, and a pool whose engines can or cannot be loaded, with stand-ins for the engines."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from engine.config import EngineConfig, TalkerConfig
from engine.errors import CheckpointError, EngineError, EngineFailed, EngineUnavailable
from engine.pool.pool import EnginePool
from engine.pool.routing import in_order_of_preference
from engine.pool.stream import Placement, PooledStream
from engine.protocol.engine import ignore_engine
from engine.protocol.request import AudioChunk, EngineInfo, FinishReason, SpeechRequest, Voice

INFO = EngineInfo("m", ("CustomVoice",), ("ryan",), ("english",), None, False, True, 64, "cpu")
VOICES = [f"voice {number}" for number in range(200)]


@dataclass
class Candidate:
    name: str
    load: int = 0
    slots: int = 1000


def spoken(voice: str) -> SpeechRequest:
    return SpeechRequest("Hello.", speaker=voice)


def first(candidates: list[Candidate], request: SpeechRequest) -> str:
    return in_order_of_preference(candidates, request)[0].name


def test_voices_are_spread_and_keep_their_engine_when_another_is_lost() -> None:
    engines = [Candidate(str(number)) for number in range(4)]
    before = {voice: first(engines, spoken(voice)) for voice in VOICES}
    counts = Counter(before.values())
    assert min(counts.values()) > len(VOICES) / 4 / 2
    after = {voice: first(engines[1:], spoken(voice)) for voice in VOICES}
    assert all(after[voice] == engine for voice, engine in before.items() if engine != "0")
    assert {after[voice] for voice, engine in before.items() if engine == "0"} == {"1", "2", "3"}


def test_one_voice_loads_no_engine_with_much_more_than_the_mean() -> None:
    engines = [Candidate(str(number)) for number in range(4)]
    for _ in range(400):
        in_order_of_preference(engines, spoken("the only voice"))[0].load += 1
    assert max(each.load for each in engines) <= 126
    assert sum(each.load for each in engines) == 400


def test_a_full_engine_comes_last_and_requests_without_a_voice_get_the_least_loaded() -> None:
    full, busy, idle = Candidate("0", 2, 2), Candidate("1", 3, 8), Candidate("2", 1, 8)
    assert all(first([full, busy, idle], spoken(voice)) != "0" for voice in VOICES)
    assert first([full, busy, idle], SpeechRequest("Hello.", instructions="A calm voice.")) == "2"


def test_a_cloned_voice_is_known_by_its_embedding() -> None:
    engines = [Candidate(str(number)) for number in range(8)]
    voices = [Voice(np.full(4, number, np.float32)) for number in range(20)]
    chosen = [first(engines, SpeechRequest(text, voice=voice)) for voice in voices for text in ("one", "two")]
    assert chosen[::2] == chosen[1::2]
    assert len(set(chosen)) > 3


class Client:
    """An engine client that becomes ready, or fails, when a test says so."""

    def __init__(self, config: EngineConfig, name: str, on_change: object) -> None:
        self.name, self.on_change = name, on_change
        self.state, self.error = "starting", EngineUnavailable("the engine is starting; retry later")
        self.restarts = {"crashed": 0, "stalled": 0, "failed": 0}
        self.suspect = self.stalled = self.closed = False
        self.open_streams, self.info, self.last_stats = 0, INFO, None
        self.refusal: EngineUnavailable | None = None
        Client.started.append(self)

    started: ClassVar[list[Client]] = []

    async def start(self) -> None: ...

    async def close(self) -> None:
        self.closed = True

    announced = False

    def announce(self) -> None:
        self.announced = True

    def submit(self, request: SpeechRequest) -> Engine:
        if self.refusal is not None:
            raise self.refusal
        engine = Engine()
        engine.end.set_result(None)
        return engine

    def check_accepting(self) -> None:
        if self.state != "ready":
            raise self.error

    @property
    def accepting(self) -> bool:
        return self.state == "ready"

    def become(self, state: str, error: EngineError | None = None) -> None:
        self.state, self.error = state, error or self.error
        self.on_change()  # type: ignore[operator]


@pytest.fixture
async def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    monkeypatch.setattr("engine.pool.member.EngineClient", Client)
    monkeypatch.setattr("engine.pool.member._RELOAD_SECONDS", 0.0)
    monkeypatch.setattr(Client, "started", [])
    return Client.started


async def pool_of(
    clients: list[Client], size: int, capacities: list[float] | None = None, keep_alive: float = -1
) -> EnginePool:
    config = EngineConfig(model="m", talker=TalkerConfig(slots=4))
    on_capacity = (lambda fraction: None) if capacities is None else capacities.append
    pool = EnginePool([config] * size, load_seconds=0.1, keep_alive=keep_alive, on_capacity=on_capacity)
    await pool.start()
    async with asyncio.timeout(20):
        while len(clients) < size:
            await asyncio.sleep(0)
    return pool


async def test_an_engine_that_could_not_be_loaded_is_loaded_again_while_another_works(clients: list[Client]) -> None:
    capacities: list[float] = []
    pool = await pool_of(clients, 2, capacities)
    clients[0].become("ready")
    clients[1].become("failed", EngineFailed("the engine exited 3 times"))
    assert await pool.wait_ready(1) is INFO
    assert capacities[-1] == 0.5
    async with asyncio.timeout(20):
        while len(clients) < 3:
            await asyncio.sleep(0)
    assert clients[1].closed
    clients[2].become("ready")
    assert capacities[-1] == 1.0
    await pool.close()


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        ([None, CheckpointError("gpu is 7, but torch finds no such GPU")], "gpu is 7"),
        ([EngineFailed("the engine exited 3 times"), EngineFailed("the engine exited 3 times")], "3 times"),
    ],
)
async def test_a_pool_does_not_start_without_engines_or_with_a_wrong_setting(
    clients: list[Client], errors: list[EngineError | None], reason: str
) -> None:
    pool = await pool_of(clients, 2)
    waiting = asyncio.create_task(pool.wait_ready(20))
    for client, error in zip(clients, errors, strict=True):
        client.become("ready" if error is None else "failed", error)
    with pytest.raises(EngineError, match=reason):
        await waiting
    await pool.close()


async def test_new_requests_are_refused_while_no_engine_accepts_them(clients: list[Client]) -> None:
    pool = await pool_of(clients, 2)
    with pytest.raises(EngineUnavailable, match="starting"):
        _ = pool.info
    for client in clients:
        client.become("ready")
    pool.check_accepting()
    for client in clients:
        client.become("starting", EngineUnavailable("the engine is restarting; retry later"))
    assert pool.info is INFO
    with pytest.raises(EngineUnavailable, match="restarting"):
        pool.check_accepting()
    with pytest.raises(EngineUnavailable, match=r"no engine was ready within 0\.1 s"):
        await anext(pool.submit(spoken("ryan")))
    await pool.close()


async def test_engines_are_not_unloaded_while_one_prepares_a_recording(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording is resampled before it is a request of its engine."""
    voice = Voice(np.ones(4, np.float32))
    resampled = asyncio.Event()

    async def encode(client: Client, *_: object, **__: object) -> Voice:
        await resampled.wait()
        assert not client.closed
        return voice

    monkeypatch.setattr(Client, "encode_reference", encode, raising=False)
    pool = await pool_of(clients, 1, keep_alive=0)
    clients[0].become("ready")
    encoding = asyncio.create_task(pool.encode_reference(np.zeros(8, np.float32), 16_000, codes=False))
    await asyncio.sleep(0)
    pool._idle.check()
    await asyncio.sleep(0)
    resampled.set()
    assert await encoding is voice
    pool._idle.check()
    assert pool.engines["0"].state is None
    await pool.close()


class Engine:
    """An engine of a ``PooledStream``, and its stream. It fails or ends when a test says so."""

    name = label = "0"

    def __init__(self, error: EngineUnavailable | None = None) -> None:
        self.error = error
        self.texts: list[str] = []
        self.cancelled = False
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def append(self, piece: str, *, last: bool = False) -> None:
        if self.error is not None:
            raise self.error
        self.texts.append(piece)

    def cancel(self) -> None:
        self.cancelled = True

    async def __anext__(self) -> AudioChunk:
        await self.end
        raise StopAsyncIteration


class Engines:
    """The dispatcher of a ``PooledStream``, with an engine for each time that it is submitted."""

    def __init__(self, *engines: Engine) -> None:
        self._engines = iter(engines)

    def place(self, request: SpeechRequest, *, moved: bool) -> Placement:
        engine = next(self._engines)
        return Placement(cast(Any, engine), cast(Any, engine))

    async def wait_to_place(self, stream: PooledStream) -> Placement | None:
        return stream.place()

    async def wait_twice(self, stream: PooledStream) -> Placement | None:
        return stream.place() or stream.place()

    def add_unheard(self, member: object, stream: PooledStream) -> None: ...

    def remove_unheard(self, member: object, stream: PooledStream) -> None: ...

    def wake_waiting(self) -> None: ...


async def test_text_that_arrives_while_an_engine_is_lost_moves_with_the_rest() -> None:
    first, second = Engine(), Engine()
    stream = PooledStream(Engines(first, second), spoken("ava"), ignore_engine)
    stream.append("One, ")
    first.error = EngineUnavailable("the engine cannot be reached")
    stream.append("two.", last=True)
    first.end.set_exception(EngineFailed("the engine process ended", code="engine_lost"))
    second.end.set_result(None)
    assert [chunk async for chunk in stream] == []
    assert (first.texts, second.texts) == (["One, "], ["One, ", "two."])


async def test_a_request_on_which_models_failed_once_survives_the_loss_of_their_engine() -> None:
    first, second, third = Engine(), Engine(), Engine()
    stream = PooledStream(Engines(first, second, third), spoken("ava"), ignore_engine)
    first.end.set_exception(EngineFailed("the models failed"))
    second.end.set_exception(EngineFailed("the engine process ended", code="engine_lost"))
    third.end.set_result(None)
    assert [chunk async for chunk in stream] == []


async def test_a_request_whose_text_does_not_fit_in_the_next_engine_leaves_it() -> None:
    full = EngineUnavailable("the engine's request queue is full", code="engine_busy")
    first, second = Engine(), Engine(full)
    stream = PooledStream(Engines(first, second), spoken("ava"), ignore_engine)
    stream.append("One.")
    first.end.set_exception(EngineFailed("the engine process ended", code="engine_lost"))
    with pytest.raises(EngineUnavailable, match="full"):
        await anext(stream)
    assert second.cancelled


async def test_text_that_arrives_as_the_next_engine_ends_moves_once_more() -> None:
    first, second, third = Engine(), Engine(EngineUnavailable("the engine cannot be reached")), Engine()
    engines = Engines(first, second, third)
    stream = PooledStream(engines, spoken("ava"), ignore_engine)
    stream.append("One.", last=True)
    first.end.set_exception(EngineFailed("the engine process ended", code="engine_lost"))
    third.end.set_result(None)
    engines.wait_to_place = engines.wait_twice  # type: ignore[method-assign]
    assert [chunk async for chunk in stream] == []
    assert second.cancelled
    assert third.texts == ["One."]


async def test_cancelling_again_after_the_end_changes_nothing() -> None:
    engine = Engine()
    engines = Engines(engine)
    stream = PooledStream(engines, spoken("ava"), ignore_engine)
    engine.end.set_exception(EngineFailed("the engine process ended", code="engine_lost"))
    stream.cancel()
    assert [chunk async for chunk in stream] == []
    stream.cancel()
    assert stream.completion.finish_reason == FinishReason.CANCELLED


async def test_a_request_waits_while_its_only_engine_has_just_ended(clients: list[Client]) -> None:
    pool = await pool_of(clients, 1)
    clients[0].become("ready")
    await pool.wait_ready(20)
    clients[0].refusal = EngineUnavailable("the engine cannot be reached")
    stream = pool.submit(spoken("ava"))
    clients[0].refusal = None
    pool.wake_waiting()
    assert [chunk async for chunk in stream] == []
    await pool.close()


async def test_a_new_pool_uses_engines_of_the_old_one_with_the_same_configuration(clients: list[Client]) -> None:
    small, large = (EngineConfig(model="m", talker=TalkerConfig(slots=slots)) for slots in (4, 8))
    old_capacity: list[float] = []
    new_capacity: list[float] = []
    old = EnginePool([small, small], load_seconds=1, on_capacity=old_capacity.append)
    await old.start()
    async with asyncio.timeout(20):
        while len(clients) < 2:
            await asyncio.sleep(0)
    for each in clients:
        each.become("ready")
    kept = [*old.engines.values()]
    new = EnginePool(
        [large, small], load_seconds=1, on_capacity=new_capacity.append, kept=kept, names=itertools.count(2)
    )
    assert [*new.engines] == ["2", "0"]
    assert [engine.name for engine in kept] == ["1"]
    new.load_new()
    async with asyncio.timeout(20):
        while len(clients) < 3:
            await asyncio.sleep(0)
    assert new.info is INFO
    clients[2].become("ready")
    await new.wait_new(1)
    assert new_capacity == []
    new.activate()
    old.retire()
    before = len(old_capacity)
    clients[2].become("starting")
    assert (new_capacity[-1], len(old_capacity)) == (4 / 12, before)
    await old.close(keep=[*new.engines.values()])
    assert [each.closed for each in clients] == [False, True, False]
    await new.close()
    assert all(each.closed for each in clients)


async def test_all_new_engines_of_a_pool_must_become_ready(clients: list[Client]) -> None:
    pool = await pool_of(clients, 2)
    clients[0].become("ready")
    waiting = asyncio.create_task(pool.wait_new(20))
    clients[1].become("failed", EngineFailed("the engine exited 3 times"))
    with pytest.raises(EngineFailed, match="exited 3 times"):
        await waiting
    await pool.close()


async def test_all_engines_hear_that_a_request_follows(clients: list[Client]) -> None:
    pool = await pool_of(clients, 2)
    pool.announce()
    assert all(client.announced for client in clients)
    await pool.close()
