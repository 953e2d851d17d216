"""One engine of a pool: loads and unloads its client, and loads it again after it gave up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from engine.client.client import EngineClient, State
from engine.client.shared_engine import SharedEngine
from engine.client.watchdog import Stats
from engine.config import EngineConfig
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.protocol.request import EngineInfo

_RELOAD_SECONDS = 30.0
"""Pause before an engine that could not be loaded is loaded again, while another engine of its pool works."""
_log = logging.getLogger(__name__)
MemberClient = EngineClient | SharedEngine
"""The client of an engine, whose process this process runs, or another one."""
MakeClient = Callable[[EngineConfig, str, Callable[[], None]], MemberClient]
"""Makes the client of an engine, from its configuration, its label and what to call when its state may have changed."""


class PoolMember:
    """An engine of a pool. Its client exists while the engine is loaded.

    During a reload it belongs to two pools: requests in flight still use the old one.

    config: the configuration of the engine. name: of the engine. model: the name of its model, for the log.
    make_client: makes its client; None for an ``EngineClient``, which runs the engine process.
    """

    def __init__(self, config: EngineConfig, name: str, model: str = "", make_client: MakeClient | None = None) -> None:
        self.name, self.config, self._make_client = name, config, make_client
        self.label = f"{model}/{name}" if model else name
        """Its name in the log."""
        self.slots = config.talker.slots
        self.last_info: EngineInfo | None = None
        """What the checkpoint can do; None until the engine was ready for the first time."""
        self._observers: list[Callable[[], None]] = []
        self._client: MemberClient | None = None
        self._failure: EngineError | None = None
        self._closing: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._reload_timer: asyncio.TimerHandle | None = None
        self._earlier_restarts = Counter(crashed=0, stalled=0, failed=0)

    @property
    def client(self) -> MemberClient | None:
        """The client; None while the engine is not loaded."""
        return self._client

    @property
    def owned(self) -> EngineClient | None:
        """The client, if this process runs the engine process."""
        return self._client if isinstance(self._client, EngineClient) else None

    @property
    def state(self) -> State | None:
        """The state of the client; None while the engine is unloaded."""
        if self._failure is not None:
            return "failed"
        if self._client is None:
            return None if self._loading is None else "starting"
        return self._client.state

    @property
    def failure(self) -> EngineError | None:
        """The error that says why the engine accepts no requests; None if it accepts them or is unloaded."""
        if self._failure is not None:
            return self._failure
        if self._client is None:
            return None if self._loading is None else EngineUnavailable("the engine is being loaded; retry later")
        try:
            self._client.check_accepting()
        except EngineError as error:
            return error
        return None

    @property
    def accepting(self) -> bool:
        """Whether the engine accepts requests, as far as is known."""
        return self._client is not None and self._client.accepting

    @property
    def suspect(self) -> bool:
        """Whether the models failed on a request or a check, and have produced no audio since."""
        return self._client is not None and self._client.suspect

    @property
    def stalled(self) -> bool:
        """Whether the pipeline does not answer. The engine is killed if it goes on."""
        return self._client is not None and self._client.stalled

    @property
    def load(self) -> int:
        """Number of its open requests."""
        return 0 if self._client is None else self._client.open_streams

    @property
    def info(self) -> EngineInfo | None:
        """What the checkpoint can do; None unless the engine is ready."""
        return self._client.info if self._client is not None and self._client.state == "ready" else None

    @property
    def restarts(self) -> Mapping[str, int]:
        """Number of times the engine process was replaced, by reason."""
        return self._earlier_restarts if self._client is None else self._all_restarts(self._client)

    @property
    def last_stats(self) -> Stats | None:
        """The most recent statistics of the running engine process, or None."""
        return None if self._client is None else self._client.last_stats

    @property
    def loaded(self) -> bool:
        """Whether the engine is loaded or being loaded, not unloaded after ``keep_alive``."""
        return self.state is not None

    def add_observer(self, on_change: Callable[[], None]) -> None:
        """Call ``on_change`` from now on when the state may have changed."""
        self._observers.append(on_change)

    def remove_observer(self, on_change: Callable[[], None]) -> None:
        """Call ``on_change`` no more. No-op if it is not an observer."""
        if on_change in self._observers:
            self._observers.remove(on_change)

    async def stats(self, timeout: float) -> Stats:
        """Return fresh statistics of both stages; nothing of an unloaded engine. Raises EngineError or TimeoutError."""
        if self._client is not None:
            return await self._client.stats(timeout)
        if (failure := self.failure) is not None:
            raise failure
        return {}

    def start_loading(self) -> None:
        """Load the engine in the background, unless it is loaded or being loaded."""
        if self._client is None and self._loading is None:
            self._failure = None
            self._loading = asyncio.get_running_loop().create_task(self._load())

    def reload_later(self) -> None:
        """Load an engine that has failed again, after a pause. No-op unless it has failed, and this process runs it."""
        if self.state == "failed" and self._reload_timer is None and self._make_client is None:
            _log.error("engine %s could not be loaded; trying again in %g s", self.label, _RELOAD_SECONDS)
            self._reload_timer = asyncio.get_running_loop().call_later(_RELOAD_SECONDS, self._reload)

    def unload(self) -> None:
        """Stop the engine in the background and free its memory. Open requests fail."""
        if self._reload_timer is not None:
            self._reload_timer.cancel()
            self._reload_timer = None
        if self._client is not None:
            client, self._client = self._client, None
            self._earlier_restarts = self._all_restarts(client)
            self._closing = asyncio.get_running_loop().create_task(client.close())

    async def close(self) -> None:
        """Stop the engine. Open requests fail."""
        if self._loading is not None:
            self._loading.cancel()
        self.unload()
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def _load(self) -> None:
        """Start a client once the memory of the one before is free."""
        try:
            if self._closing is not None:
                await asyncio.wait({self._closing})
            make_client = self._make_client or EngineClient
            client = make_client(self.config, self.label, self._handle_change)
            try:
                await client.start()
            except EngineError as error:
                self._failure = error
            except OSError as error:
                self._failure = EngineFailed(f"the engine process could not be started: {error.strerror}")
            else:
                self._client = client
        finally:
            self._loading = None
        self._handle_change()

    def _handle_change(self) -> None:
        self.last_info = self.info or self.last_info
        for on_change in list(self._observers):
            on_change()

    def _reload(self) -> None:
        self._reload_timer = None
        self.unload()
        self.start_loading()

    def _all_restarts(self, client: MemberClient) -> Counter[str]:
        counts = Counter(client.restarts)
        counts.update(self._earlier_restarts)
        return counts


def members_for(
    configs: Sequence[EngineConfig],
    model: str,
    kept: list[PoolMember],
    names: Iterator[int],
    make_client: MakeClient | None,
) -> tuple[list[PoolMember], list[PoolMember]]:
    """Return an engine for each configuration, and those of them that are new.

    model: the name of their model. kept: engines to use instead of new ones with the same configuration; those that are
    used are removed. names: the names of new engines; names in use are skipped. make_client: makes their clients.
    """
    members: list[PoolMember | None] = []
    used: set[str] = set()
    for config in configs:
        same = next((each for each in kept if each.config == config and each.name not in used), None)
        if same is not None:
            kept.remove(same)
            used.add(same.name)
        members.append(same)
    free = (str(number) for number in names if str(number) not in used)
    new = [
        PoolMember(config, next(free), model, make_client)
        for config, each in zip(configs, members, strict=True)
        if each is None
    ]
    rest = iter(new)
    return [next(rest) if each is None else each for each in members], new


def failure_of(members: Iterable[PoolMember]) -> EngineError:
    """Return the error that says why none of these engines accepts requests."""
    failures = [failure for member in members if (failure := member.failure) is not None]
    temporary = [failure for failure in failures if isinstance(failure, EngineUnavailable)]
    for failure in temporary or failures:
        return failure.with_traceback(None)
    return EngineUnavailable("the engine is starting; retry later")


async def stats_or_last(member: PoolMember, timeout: float) -> Stats | None:
    """Return fresh statistics of an engine, or its last ones if it does not answer within ``timeout`` seconds."""
    try:
        return await member.stats(timeout)
    except (EngineError, TimeoutError):
        return member.last_stats


def total(parts: Sequence[Stats | None]) -> Stats | None:
    """Return the sums of statistics; None without any."""
    known = [part for part in parts if part is not None]
    return {name: sum(part[name] for part in known) for name in known[0]} if known else None
