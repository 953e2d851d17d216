"""The engines of one model behind the Engine protocol."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.client.stream import BUSY
from engine.config import EngineConfig
from engine.errors import CheckpointError, EngineFailed, EngineUnavailable
from engine.pool.idle import IdleTimer
from engine.pool.member import MakeClient, MemberClient, PoolMember, failure_of, members_for, stats_or_last, total
from engine.pool.routing import in_order_of_preference
from engine.pool.stream import Placement, PooledStream
from engine.protocol.engine import OnEngine, ignore_engine
from engine.protocol.request import EngineInfo, SpeechRequest, Voice

_log = logging.getLogger(__name__)
T = TypeVar("T")


class EnginePool:
    """Routes requests to engines with the same checkpoint, and moves those that are not audible when one is lost.

    Use it in one event loop. A reload replaces a pool by another one, and may keep some of its engines (``kept``): it
    calls ``load_new`` and ``wait_new`` of the new pool, then at the same time ``activate`` of the new and ``retire`` of
    the old pool, and ``close`` of the old pool once its requests have ended.

    Args:
        configs: the configuration of each engine.
        load_seconds: how long a request waits for an engine that is loaded on demand.
        restart_seconds: how long it waits for an engine that is restarted; None for ``load_seconds``.
        keep_alive: seconds without requests after which the engines are unloaded; the next request loads them again.
            -1 keeps them.
        on_capacity: is called with the fraction of all slots whose engines accept requests, when it may have changed.
            It is 1 while no engine does, as requests then wait for one. Not called before ``activate``.
        model: the name of the model, for the log.
        kept: engines of other pools, each of which is used instead of a new one with the same configuration. Those
            that are used are removed from the list.
        names: the names of new engines.
        make_client: makes the clients of new engines; see ``PoolMember``.
    """

    def __init__(
        self,
        configs: Sequence[EngineConfig],
        *,
        load_seconds: float,
        restart_seconds: float | None = None,
        keep_alive: float = -1,
        on_capacity: Callable[[float], None] = lambda fraction: None,
        model: str = "",
        kept: list[PoolMember] | None = None,
        names: Iterator[int] | None = None,
        make_client: MakeClient | None = None,
    ) -> None:
        self._load_seconds, self._keep_alive, self._on_capacity = load_seconds, keep_alive, on_capacity
        self._restart_seconds = load_seconds if restart_seconds is None else restart_seconds
        self._members, self._new = members_for(
            configs, model, [] if kept is None else kept, itertools.count() if names is None else names, make_client
        )
        self._unheard: dict[PoolMember, set[PooledStream]] = {member: set() for member in self._members}
        self._changed = asyncio.Event()
        self._info = next((member.last_info for member in self._members if member.last_info is not None), None)
        self._waiting = self._calls = 0
        self._idle = IdleTimer(keep_alive, self._busy, self._unload)
        self._active = self._closed = False
        for member in self._members:
            member.add_observer(self._handle_change)

    @property
    def engines(self) -> Mapping[str, PoolMember]:
        """The engines by name, for their status."""
        return {member.name: member for member in self._members}

    @property
    def new_members(self) -> Sequence[PoolMember]:
        """The engines that no other pool had before."""
        return self._new

    @property
    def info(self) -> EngineInfo:
        """What the checkpoint can do. Also known while the engines are restarted or unloaded. Raises EngineError."""
        if self._info is None:
            raise failure_of(self._members)
        return self._info

    @property
    def restarts(self) -> Mapping[str, int]:
        """Number of times an engine process was replaced, by reason."""
        counts: Counter[str] = Counter()
        for member in self._members:
            counts.update(member.restarts)
        return counts

    @property
    def last_stats(self) -> dict[str, int] | None:
        """The sums of the most recent statistics of all engines that have any, or None."""
        return total([member.last_stats for member in self._members])

    async def start(self) -> None:
        """Load the engines in the background, and activate the pool."""
        self.load_new()
        self.activate()

    def load_new(self) -> None:
        """Load the new engines in the background."""
        for member in self._new:
            member.start_loading()

    def activate(self) -> None:
        """Begin to get requests: report the capacity, and unload idle engines."""
        self._active = True
        self._idle.start()
        self._report_capacity()

    def retire(self) -> None:
        """Get no more new requests. Those in flight continue; the pool that replaces this one unloads idle engines."""
        self._active = False
        self._idle.stop()

    async def wait_new(self, timeout: float | None = None) -> None:
        """Wait until all new engines are ready. Raises EngineError if one cannot start, TimeoutError after ``timeout``.

        Unlike ``wait_ready`` it tolerates no engine that failed, and does not look at those of other pools.
        """
        async with asyncio.timeout(timeout):
            while any(each.state != "ready" for each in self._new):
                for each in self._new:
                    if each.state == "failed":
                        raise each.failure or EngineFailed("the engine could not start")
                await self._changed.wait()

    async def wait_ready(self, timeout: float | None = None) -> EngineInfo:
        """Wait until one engine is ready and no other is in its first start.

        Raises EngineError if no engine can start, or if a checkpoint or a GPU is unusable. Raises TimeoutError after
        ``timeout`` seconds.
        """
        async with asyncio.timeout(timeout):
            while True:
                failures = [each.failure for each in self._members if each.state == "failed"]
                for failure in failures:
                    if isinstance(failure, CheckpointError) or len(failures) == len(self._members):
                        raise failure or EngineFailed("the engine could not start")
                starting = any(each.state == "starting" and not sum(each.restarts.values()) for each in self._members)
                if self._info is not None and not starting:
                    return self._info
                await self._changed.wait()

    async def close(self, keep: Collection[PoolMember] = ()) -> None:
        """Stop all engines except ``keep``, which another pool uses. Open requests fail."""
        self._closed = True
        self.retire()
        for member in self._members:
            member.remove_observer(self._handle_change)
        await asyncio.gather(*(member.close() for member in self._members if member not in keep))
        self._notify()

    def check_accepting(self) -> None:
        """Raise EngineError if no engine accepts requests, unless they are loaded on demand. Never waits."""
        if self._info is None or not (self._loads_on_demand or any(each.accepting for each in self._members)):
            raise failure_of(self._members)

    def check_health(self) -> None:
        """Raise EngineError if no engine can synthesize. Starts a model check in idle engines. Never waits."""
        self.check_accepting()
        for member in self._members:
            if member.client is not None and member.accepting:
                member.client.check_health()

    async def stats(self, timeout: float) -> dict[str, int]:
        """Return the sums of the statistics of all engines that accept requests; of unloaded engines, nothing.

        An engine that does not answer within ``timeout`` seconds counts with its last statistics. Raises EngineError
        if no engine accepts requests, and TimeoutError if none has statistics.
        """
        self.check_accepting()
        members = [member for member in self._members if member.accepting]
        stats = total(await asyncio.gather(*(stats_or_last(member, timeout) for member in members)))
        if members and stats is None:
            raise TimeoutError
        return stats or {}

    def announce(self) -> None:
        """Let all engines know that one of them gets a request within milliseconds."""
        for member in self._members:
            if member.client is not None:
                member.client.announce()

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> PooledStream:
        """Start an utterance. Never waits. Its first chunk waits for an engine if none can take it now.

        Raises EngineUnavailable if the engines' request queues are full, or the pool is closed.
        """
        return PooledStream(self, request, on_engine)

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        """Return the voice of a mono recording, encoded by the engine with the fewest requests. Raises EngineError."""
        return await self._call(
            lambda client: client.encode_reference(samples, sample_rate, codes=codes, transcript=transcript)
        )

    async def speaker_voice(self, speaker: str) -> Voice:
        """Return a built-in speaker as a voice to clone. Raises EngineError."""
        return await self._call(lambda client: client.speaker_voice(speaker))

    def place(self, request: SpeechRequest, *, moved: bool) -> Placement | None:
        """Submit ``request`` to the best engine. Return None when no engine can take it now.

        A moved request is not submitted to an engine whose models have failed and were not checked since.
        Raises EngineUnavailable if the engines' request queues are full, or the pool is closed.
        """
        self._prepare()
        busy: EngineUnavailable | None = None
        for member in self._candidates(request, moved=moved):
            try:
                assert member.client is not None
                return Placement(member, member.client.submit(request))
            except EngineUnavailable as error:
                if error.code == BUSY:
                    busy = error
        if busy is not None:
            raise busy
        return None

    async def wait_to_place(self, stream: PooledStream) -> Placement | None:
        """Wait until ``stream.place`` succeeds, or return None when it is cancelled. Raises EngineError."""
        return await self._wait_for(lambda: None if stream.cancelled else stream.place(), lambda: stream.cancelled)

    def add_unheard(self, member: PoolMember, stream: PooledStream) -> None:
        """Add a stream of ``member`` that may still be moved."""
        self._unheard[member].add(stream)

    def remove_unheard(self, member: PoolMember, stream: PooledStream) -> None:
        """Remove a stream that may no longer be moved."""
        self._unheard[member].discard(stream)

    def wake_waiting(self) -> None:
        """Make the requests that wait for an engine check again."""
        self._notify()

    @property
    def _loads_on_demand(self) -> bool:
        """Whether the engines are unloaded, or are being loaded again after that."""
        return self._keep_alive >= 0 and all(each.state in (None, "starting") for each in self._members)

    def _candidates(self, request: SpeechRequest | None, *, moved: bool) -> list[PoolMember]:
        """Return the engines that may get a request, in order of preference. request: None for a voice to encode."""
        accepting = [member for member in self._members if member.accepting]
        healthy = [member for member in accepting if not member.suspect]
        return in_order_of_preference(healthy if moved or healthy else accepting, request)

    def _prepare(self) -> None:
        """Load the engines if they are unloaded. Raises EngineUnavailable if the pool is closed."""
        if self._closed:
            raise EngineUnavailable("the engine is closed")
        self._idle.touch()
        for member in self._members:
            if member.state is None:
                _log.info("loading engine %s on demand", member.label)
                member.start_loading()

    async def _call(self, call: Callable[[MemberClient], Awaitable[T]]) -> T:
        """Return the result of ``call`` for the engine with the fewest requests, or of another one if that is lost."""
        self._calls += 1
        try:
            return await call(await self._available_client(moved=False))
        except EngineFailed:
            return await call(await self._available_client(moved=True))
        finally:
            self._calls -= 1

    async def _available_client(self, *, moved: bool) -> MemberClient:
        def available() -> MemberClient | None:
            self._prepare()
            candidates = self._candidates(None, moved=moved)
            return candidates[0].client if candidates else None

        client: MemberClient | None = await self._wait_for(available)
        assert client is not None
        return client

    async def _wait_for(self, get: Callable[[], T | None], cancelled: Callable[[], bool] = lambda: False) -> T | None:
        """Wait until ``get`` returns a value, and return it, or None when ``cancelled``.

        Raises EngineError if no engine can be loaded, and EngineUnavailable after the wait that is allowed.
        """
        self._waiting += 1
        on_demand = self._loads_on_demand
        seconds = self._load_seconds if on_demand else self._restart_seconds
        try:
            async with asyncio.timeout(seconds):
                while (found := get()) is None and not cancelled():
                    if all(each.state == "failed" for each in self._members):
                        raise failure_of(self._members)
                    await self._changed.wait()
                return found
        except TimeoutError:
            setting = "first_sound_seconds" if on_demand else "restart_wait_seconds"
            raise EngineUnavailable(
                f"no engine was ready within {seconds:g} s (limits.{setting}); retry later"
            ) from None
        finally:
            self._waiting -= 1

    def _handle_change(self) -> None:
        """Handle a change of an engine: remember what its checkpoint can do, move requests, wake those that wait."""
        for member in self._members:
            self._info = member.last_info or self._info
        accepting = [member for member in self._members if member.accepting]
        for member in self._members:
            if member.stalled and accepting:
                for stream in list(self._unheard[member]):
                    stream.move()
            if member.state == "failed" and self._info is not None:
                member.reload_later()
        self._notify()
        self._report_capacity()

    def _report_capacity(self) -> None:
        if self._active:
            slots = sum(member.slots for member in self._members if member.accepting)
            self._on_capacity(slots / sum(member.slots for member in self._members) or 1.0)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _busy(self) -> bool:
        """Whether there are requests, or an engine changes its state."""
        loading = any(each.load or each.state not in (None, "ready") for each in self._members)
        return bool(self._waiting or self._calls or loading)

    def _unload(self) -> None:
        for member in self._members:
            if member.state is not None:
                _log.info("unloading engine %s: no requests for %g s", member.label, self._keep_alive)
                member.unload()
