"""In the main HTTP process: its connections to the additional ones."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from engine.client.shared_engine import EngineState
from engine.errors import EngineError
from engine.pool.member import PoolMember
from engine.pool.sharing import EngineShares
from engine.transfer import Side
from server.keys.usage import KeyUsage, Usage
from server.processes.channel import Channel, Message, PeerLost
from server.processes.peers import ANSWER_SECONDS
from server.telemetry.merged_metrics import Families, cumulative
from server.telemetry.outcomes import Outcomes

_START_SECONDS = 10.0
"""How long the main process waits at its start for the additional ones, which take less than it."""
_END_SECONDS = 5.0
"""How long it waits for their end, once they have no request in flight."""
MetricsPage = Callable[[str], Awaitable[tuple[bytes, str]]]
"""Returns the metrics page of the server, and its media type, for an ``Accept`` header."""


class AdditionalPeers:
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
        self._ended: list[Families] = []
        """The counters of processes that have ended."""
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
        for process in self._processes:
            process.tell_exit()
        return True

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that an additional process has served; None if there is none."""
        return await self.outcome_of_others(None, request_id, owner)

    async def outcome_of_others(
        self, asking: _AdditionalProcess | None, request_id: str, owner: str | None
    ) -> dict[str, Any] | None:
        """Return the outcome of a request that an additional process other than ``asking`` has served."""
        question = {"what": "outcome", "id": request_id, "owner": owner}
        others = [each for each in self._processes if each is not asking]
        answers = await asyncio.gather(*(each.ask(question) for each in others))
        return next((answer for answer in answers if answer is not None), None)

    async def metrics(self) -> list[Families]:
        """Return the metrics of the additional processes; the last known ones of one that does not answer."""
        running = await asyncio.gather(*(each.metrics() for each in self._processes))
        return [*running, *self._ended]

    async def metrics_page(self, accept: str) -> None:
        """Return None: this process makes the page."""

    def usage_changed(self, owner: str, *, source: _AdditionalProcess | None = None) -> None:
        """Tell the additional processes except ``source`` what ``owner`` uses elsewhere."""
        everywhere = [self.usage.here(owner), *(each.usage.get(owner, Usage()) for each in self._processes)]
        running, seconds = sum(each.running for each in everywhere), sum(each.audio_seconds for each in everywhere)
        for process in self._processes:
            if process is not source:
                own = process.usage.get(owner, Usage())
                process.tell_usage(owner, Usage(running - own.running, seconds - own.audio_seconds))
        here = self.usage.here(owner)
        self.usage.set_elsewhere(owner, Usage(running - here.running, seconds - here.audio_seconds))

    def lost(self, process: _AdditionalProcess) -> None:
        """Handle the end of an additional process."""
        self._processes.discard(process)
        self._ended.append(cumulative(process.last_metrics))
        for owner, usage in process.usage.items():
            self.usage.add_audio(owner, usage.audio_seconds)
            self.usage_changed(owner)
        self.changed()

    async def wait_gone(self) -> None:
        """Wait until all additional processes have ended, for some seconds: they use the engines."""
        await self._wait_until(lambda: not self._processes, _END_SECONDS)

    def changed(self) -> None:
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
            process = _AdditionalProcess(socket.socket(fileno=descriptor), self, self._numbers)
            self._processes.add(process)
            for owner in {*self.usage.owners(), *(name for each in self._processes for name in each.usage)}:
                self.usage_changed(owner)


class _AdditionalProcess:
    """The connection to one additional process."""

    def __init__(self, connection: socket.socket, main: AdditionalPeers, peers: Iterator[int]) -> None:
        self._main = main
        self.started = self.drained = False
        self.usage: dict[str, Usage] = {}
        self.last_metrics: Families = []
        self._channel = Channel(connection, self)
        self._shares = EngineShares(main.engines, peers, self._tell_engine)

    def told(self, message: Message, descriptors: list[int]) -> None:
        """Handle what the process tells."""
        if message["what"] in ("started", "drained"):
            setattr(self, message["what"], True)
            self._main.changed()
        elif message["what"] == "usage":
            self.usage[message["owner"]] = Usage(message["running"], message["audio_seconds"])
            self._main.usage_changed(message["owner"], source=self)
        elif message["what"] == "engine":
            engine = self._shares.engine(message["label"])
            client = None if engine is None else engine.owned
            if client is None:
                return
            if message["report"] == "failed":
                client.report_model_failure()
            elif message["report"] == "stalled":
                client.report_stall(message["message"])
            else:
                with suppress(EngineError):
                    client.check_health()

    async def asked(self, message: Message) -> Any:
        """Answer a question of the process."""
        if message["what"] == "metrics":
            page, media_type = await self._main.page(message["accept"])
            return [page.decode(), media_type]
        request_id, owner = message["id"], message["owner"]
        found = self._main.outcomes.fields(request_id, owner)
        return found or await self._main.outcome_of_others(self, request_id, owner)

    def lost(self) -> None:
        """Handle the end of the process."""
        self._shares.close()
        self._main.lost(self)

    async def ask(self, question: Message) -> Any:
        """Return the answer of the process; None if it does not answer."""
        try:
            return await self._channel.ask(question, ANSWER_SECONDS)
        except PeerLost:
            return None

    async def metrics(self) -> Families:
        """Return the metrics of the process; the last known ones if it does not answer."""
        self.last_metrics = await self.ask({"what": "metrics"}) or self.last_metrics
        return self.last_metrics

    def tell_usage(self, owner: str, usage: Usage) -> None:
        """Tell the process what ``owner`` uses elsewhere."""
        self._channel.tell({"what": "usage", "owner": owner, **usage._asdict()})

    def tell_exit(self) -> None:
        """Tell the process to exit."""
        self._channel.tell({"what": "exit"})

    def close(self) -> None:
        """Close the connection."""
        self._shares.close()
        self._channel.close()

    def _tell_engine(self, label: str, state: EngineState, sides: tuple[Side, Side] | None, peer: int) -> None:
        links = [] if sides is None else [[side.side, side.window, side.capacity] for side in sides]
        descriptors = [each for side in sides or () for each in side.descriptors]
        message = {"what": "engine", "label": label, "state": state.to_fields(), "links": links, "peer": peer}
        self._channel.tell(message, descriptors)
