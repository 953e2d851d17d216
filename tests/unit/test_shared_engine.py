"""An engine that another process runs: its links are lost and replaced, and it follows the state of its owner."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

from engine.client.links import AUDIO_WINDOW, RING_BYTES
from engine.client.shared_engine import EngineState, SharedEngine
from engine.config import EngineConfig
from engine.errors import EngineFailed, EngineUnavailable
from engine.pool.member import PoolMember
from engine.pool.sharing import EngineShares
from engine.protocol.request import Completion, EngineInfo, FinishReason, SpeechRequest
from engine.transfer import Kind, MultiEndpoint, Side, Wakeup, multi_pair

TIMEOUT = 10.0
INFO = EngineInfo(
    model="org/model", tasks=("CustomVoice",), speakers=("ava",), languages=("english",), embedding_width=None,
    in_context=False, trained=True, context=100, device="cpu",
)  # fmt: skip
READY = EngineState("ready", info=INFO)


class Engine:
    """Both links of an engine process, in this process. It ends every utterance at once."""

    def __init__(self) -> None:
        self.ends: list[MultiEndpoint] = []
        self._owners, self._joiners = [], []
        self.wakeups = [Wakeup(), Wakeup()]
        for wakeup, window in zip(self.wakeups, (1, AUDIO_WINDOW), strict=True):
            own, sides, joiner = multi_pair(window=window, capacity=RING_BYTES)
            self._owners.append(own.attach(Wakeup()))
            self.ends.append(sides.attach(wakeup))
            self._joiners.append(joiner)

    def join(self, peer: int) -> tuple[Side, Side]:
        requests, audio = (joiner.join(peer) for joiner in self._joiners)
        return requests, audio

    async def answer(self) -> None:
        """End the next utterance."""
        requests, audio = self.ends
        while True:
            for record in requests.receive():
                if record.kind is Kind.OPEN:
                    audio.open(record.stream)
                    audio.end(record.stream, Completion(FinishReason.STOP, 1, 0).to_bytes())
                    return
            await asyncio.sleep(0.001)

    def lose_audio_link(self, peer: int) -> None:
        """Hang up as for a process that does not read."""
        self.ends[1]._peers[peer].hang_up()

    def close(self) -> None:
        for each in (*self._joiners, *self._owners, *self.ends):
            each.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


Report = tuple[str, int]


@pytest.fixture
async def shared() -> AsyncIterator[tuple[SharedEngine, list[Report]]]:
    reports: list[Report] = []
    client = SharedEngine(
        EngineConfig(model="org/model"), "m/0", lambda: None, lambda kind, peer: reports.append((kind, peer))
    )
    yield client, reports
    await client.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.001)


async def speak(client: SharedEngine, engine: Engine) -> Completion:
    stream = client.submit(SpeechRequest("Hello.", speaker="ava"))
    answering = asyncio.create_task(engine.answer())
    assert [chunk async for chunk in stream] == []
    await answering
    return stream.completion


async def test_it_accepts_requests_once_the_engine_process_has_joined(
    shared: tuple[SharedEngine, list[Report]], engine: Engine
) -> None:
    client, reports = shared
    assert (client.state, client.accepting) == ("starting", False)
    client.update(READY, engine.join(1), 1)
    assert client.state == "starting"
    await until(lambda: client.accepting)
    assert (client.state, client.info) == ("ready", INFO)
    assert (await speak(client, engine)).finish_reason is FinishReason.STOP
    assert reports == []


async def test_it_follows_the_state_that_its_owner_sends(
    shared: tuple[SharedEngine, list[Report]], engine: Engine
) -> None:
    client, _ = shared
    client.update(READY, engine.join(1), 1)
    await until(lambda: client.accepting)
    stalled = EngineUnavailable("the engine has not answered", code="engine_stalled")
    client.update(EngineState("ready", suspect=True, stalled=True, failure=stalled, info=INFO))
    assert (client.accepting, client.suspect, client.stalled) == (False, True, True)
    with pytest.raises(EngineUnavailable, match="has not answered"):
        client.submit(SpeechRequest("Hello.", speaker="ava"))
    client.update(pickle.loads(pickle.dumps(READY)))
    assert (client.accepting, client.info) == (True, INFO)


async def test_requests_fail_when_one_link_is_lost_and_new_links_replace_both(
    shared: tuple[SharedEngine, list[Report]], engine: Engine
) -> None:
    client, reports = shared
    client.update(READY, engine.join(1), 1)
    await until(lambda: client.accepting)
    stream = client.submit(SpeechRequest("Hello.", speaker="ava"))
    engine.lose_audio_link(1)
    with pytest.raises(EngineFailed) as failure:
        await anext(stream)
    assert failure.value.code == "engine_lost"
    assert (reports, client.accepting) == ([("lost", 1)], False)
    client.update(READY, engine.join(2), 2)
    await until(lambda: client.accepting)
    engine.ends[0].receive()
    assert (await speak(client, engine)).finish_reason is FinishReason.STOP


class Client:
    """An engine client of this process, as ``EngineShares`` uses it."""

    def __init__(self) -> None:
        self.runs = 1
        self.fails = False

    def join(self, peer: int) -> Any:
        if self.fails:
            raise BlockingIOError("the engine does not accept links")
        return f"requests {peer}", f"audio {peer}"


class Member:
    """An engine of a pool, as ``EngineShares`` uses it."""

    label = "m/0"
    suspect = stalled = False
    failure = None
    info = INFO

    def __init__(self) -> None:
        self.state, self.accepting = "ready", True
        self.owned = Client()
        self.observers: list[Callable[[], None]] = []

    def add_observer(self, on_change: Callable[[], None]) -> None:
        self.observers.append(on_change)

    def remove_observer(self, on_change: Callable[[], None]) -> None:
        self.observers.remove(on_change)


async def test_each_engine_process_is_shared_once_and_links_that_are_lost_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Member()
    monkeypatch.setattr("engine.pool.sharing._RETRY_SECONDS", 0.0)
    sent: list[tuple[str, Any, int]] = []
    engines = [cast(PoolMember, member)]
    shares = EngineShares(
        engines, itertools.count(1), lambda label, state, sides, peer: sent.append((state.state, sides, peer))
    )
    [change] = member.observers
    change()
    assert sent == [("ready", ("requests 1", "audio 1"), 1)]
    member.state, member.accepting = "starting", False
    change()
    member.state, member.accepting, member.owned.runs = "ready", True, 2
    change()
    assert sent[1:] == [("starting", None, 0), ("ready", ("requests 2", "audio 2"), 2)]
    assert shares.has_links(engines[0], 2)
    member.owned.fails = True
    shares.replace_links(engines[0])
    await asyncio.sleep(0.01)
    member.owned.fails = False
    await until(lambda: len(sent) > 3)
    assert sent[3][1] is not None
    shares.close()
    assert member.observers == []
