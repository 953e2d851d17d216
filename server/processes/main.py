"""In the main HTTP process: its connections to the additional ones."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from prometheus_client.metrics_core import Metric

from engine.client.shared_engine import EngineState
from engine.errors import EngineError
from engine.pool.member import PoolMember
from engine.pool.sharing import EngineShares
from engine.transfer import Side
from server.keys.usage import KeyUsage, Usage
from server.processes.channel import Channel, PeerLost
from server.processes.messages import (
    Drained,
    EngineReport,
    EngineUpdate,
    Exit,
    FindOutcome,
    FoundOutcome,
    GetMetrics,
    GetMetricsPage,
    OwnUsage,
    Question,
    Started,
    UsageElsewhere,
)
from server.processes.peers import ANSWER_SECONDS, Peers, no_answer
from server.telemetry.merged_metrics import cumulative, merged
from server.telemetry.outcomes import Outcomes

_START_SECONDS = 10.0
"""How long the main process waits at its start for the additional ones, which take less than it."""
T = TypeVar("T")
MetricsPage = Callable[[str], Awaitable[tuple[bytes, str]]]
"""Returns the metrics page of the server, and its media type, for an ``Accept`` header."""


class AdditionalPeers(Peers):
    """Shares the engines with the additional processes, and answers and asks for what only one process knows.

    Use it in one event loop.

    Args:
        arrivals: the socket from which the connections to additional processes arrive. Not closed here.
        engines: the engines, whose processes this process runs.
        outcomes, usage: of this process.
        page: makes the metrics page of the server.
        expected: number of additional processes.
    """

    def __init__(
        self,
        arrivals: socket.socket,
        engines: Sequence[PoolMember],
        outcomes: Outcomes,
        usage: KeyUsage,
        page: MetricsPage,
        expected: int,
    ) -> None:
        self.engines, self.outcomes, self.usage, self.page = engines, outcomes, usage, page
        self._arrivals, self._expected = arrivals, expected
        self._processes: set[_AdditionalProcess] = set()
        self._numbers = itertools.count(1)
        self._ended: list[Metric] = []
        """The counters of all processes that have ended."""
        self._changed = asyncio.Event()
        usage.on_change = self.usage_changed
        arrivals.setblocking(False)
        asyncio.get_running_loop().add_reader(arrivals, self._accept)

    async def started(self) -> None:
        """Wait until the additional processes serve requests, but not for one that fails to start."""
        await self._wait_until(lambda: sum(each.started for each in self._processes) >= self._expected, _START_SECONDS)

    def may_exit(self) -> bool:
        """Return whether no additional process has a request in flight. Then tell them to exit."""
        if not all(each.drained for each in self._processes):
            return False
        self._tell_to_exit()
        return True

    async def wait_ended(self, timeout: float) -> None:
        """Wait until all additional processes have ended, at most ``timeout`` seconds: they use the engines."""
        self._tell_to_exit()
        await self._wait_until(lambda: not self._processes, timeout)

    def _tell_to_exit(self) -> None:
        for process in self._processes:
            process.send(Exit())

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that an additional process has served. Raises ApiError 503."""
        found = await self.find_outcome(FindOutcome(request_id, owner))
        if found.fields is None and not found.complete:
            raise no_answer()
        return found.fields

    async def find_outcome(self, question: FindOutcome, asking: _AdditionalProcess | None = None) -> FoundOutcome:
        """Return the outcome of a request that an additional process other than ``asking`` has served."""
        others = [each.ask(question) for each in self._processes if each is not asking]
        answers = await asyncio.gather(*others, return_exceptions=True)
        found = (each.fields for each in answers if isinstance(each, FoundOutcome))
        complete = all(isinstance(each, FoundOutcome) for each in answers)
        return FoundOutcome(next((fields for fields in found if fields is not None), None), complete)

    async def metrics(self) -> list[list[Metric]]:
        """Return the metrics of the additional processes; the last known ones of one that does not answer."""
        await asyncio.gather(*(each.update_metrics() for each in self._processes))
        return [self._ended, *(each.last_metrics for each in self._processes)]  # those that run after the answers

    def usage_changed(self, owner: str, *, source: _AdditionalProcess | None = None) -> None:
        """Tell the additional processes except ``source`` what ``owner`` uses elsewhere."""
        here = self.usage.here(owner)
        of_each = {process: process.usage.get(owner, Usage()) for process in self._processes}
        everywhere = [here, *of_each.values()]
        running = sum(each.running for each in everywhere)
        seconds = sum(each.audio_of(here.day) for each in everywhere)
        for process, own in of_each.items():
            if process is not source:
                elsewhere = Usage(running - own.running, seconds - own.audio_of(here.day), here.day)
                process.send(UsageElsewhere(owner, elsewhere))
        self.usage.set_elsewhere(owner, Usage(running - here.running, seconds - here.audio_seconds, here.day))

    def remove(self, process: _AdditionalProcess) -> None:
        """Remove a process that has ended. Its counters and its use of keys stay."""
        self._processes.discard(process)
        self._ended = merged([self._ended, cumulative(process.last_metrics)])
        for owner, usage in process.usage.items():
            self.usage.add_audio(owner, usage.audio_of(self.usage.here(owner).day))
            self.usage_changed(owner)
        self.state_changed()

    def state_changed(self) -> None:
        """Wake up what waits for a change of the additional processes."""
        self._changed.set()

    def close(self) -> None:
        """Close all connections."""
        asyncio.get_running_loop().remove_reader(self._arrivals)
        for process in self._processes:
            process.close()
        self._processes.clear()

    async def _wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()

    def _accept(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._arrivals, 1, 1)
        except OSError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._arrivals)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            self._processes.add(_AdditionalProcess(socket.socket(fileno=descriptor), self, self._numbers))
            for owner in {*self.usage.owners(), *(name for each in self._processes for name in each.usage)}:
                self.usage_changed(owner)


class _AdditionalProcess:
    """The connection to one additional process, and what it has sent."""

    def __init__(self, connection: socket.socket, main: AdditionalPeers, peers: Iterator[int]) -> None:
        self._main = main
        self.started = self.drained = False
        self.usage: dict[str, Usage] = {}
        self.last_metrics: list[Metric] = []
        self._metrics: asyncio.Task[None] | None = None
        self._channel = Channel(connection, self)
        self._shares = EngineShares(main.engines, peers, self._send_engine)

    def received(self, message: object, descriptors: list[int]) -> None:
        """Handle a message of the process."""
        match message:
            case Started():
                self.started = True
                self._main.state_changed()
            case Drained():
                self.drained = True
                self._main.state_changed()
            case OwnUsage(owner, usage):
                self.usage[owner] = usage
                self._main.usage_changed(owner, source=self)
            case EngineReport():
                self._handle_report(message)
            case _:
                raise TypeError(f"unexpected message: {message}")

    async def answer(self, question: Question[Any]) -> object:
        """Return the answer to a question of the process."""
        match question:
            case GetMetricsPage(accept):
                return await self._main.page(accept)
            case FindOutcome(request_id, owner):
                own = self._main.outcomes.fields(request_id, owner)
                return FoundOutcome(own) if own else await self._main.find_outcome(question, self)
        raise TypeError(f"unexpected question: {question}")

    def disconnected(self) -> None:
        """Handle the end of the process."""
        self._shares.close()
        self._main.remove(self)

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message to the process. Takes ownership of the descriptors."""
        self._channel.send(message, descriptors)

    async def ask(self, question: Question[T]) -> T:
        """Return the answer of the process. Raises PeerLost."""
        return await self._channel.ask(question, ANSWER_SECONDS)

    async def update_metrics(self) -> None:
        """Ask for the metrics of the process. Do not wait for one that owes the answer to an earlier question."""
        timeout = 0.0
        if self._metrics is None or self._metrics.done():
            timeout = ANSWER_SECONDS
            self._metrics = asyncio.create_task(self._receive_metrics())
        await asyncio.wait({self._metrics}, timeout=timeout)

    def close(self) -> None:
        """Close the connection."""
        self._shares.close()
        self._channel.close()

    async def _receive_metrics(self) -> None:
        with suppress(PeerLost):
            self.last_metrics = await self._channel.ask(GetMetrics(), None)

    def _handle_report(self, message: EngineReport) -> None:
        """Handle a report about an engine. One about earlier links to it is ignored."""
        engine = self._shares.engine(message.label)
        if engine is None or not self._shares.has_links(engine, message.peer):
            return
        client = engine.owned
        if message.report == "lost":
            self._shares.replace_links(engine)
        elif client is not None and message.report == "failed":
            client.report_model_failure()
        elif client is not None:
            with suppress(EngineError):
                client.check_health()

    def _send_engine(self, label: str, state: EngineState, sides: tuple[Side, Side] | None, peer: int) -> None:
        descriptors = [each for side in sides or () for each in side.descriptors]
        self.send(EngineUpdate(label, state, sides, peer), descriptors)
