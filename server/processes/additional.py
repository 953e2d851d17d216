"""In an additional HTTP process: its connection to the main one, which runs the engines."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from prometheus_client.metrics_core import Metric

from engine.client.shared_engine import Report, SharedEngine
from engine.config import EngineConfig
from server.keys.usage import KeyUsage
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
from server.telemetry.outcomes import Outcomes

T = TypeVar("T")


class MainPeer(Peers):
    """Uses the engines of the main process, and asks it for what only one process knows. Use it in one event loop.

    Args:
        connection: to the main process.
        outcomes, usage: of this process.
        own_metrics: returns the metrics of this process, given the requests in each engine, by model and engine.
        on_lost: is called when the main process has ended, unless it has told this process to exit.
    """

    def __init__(
        self,
        connection: socket.socket,
        outcomes: Outcomes,
        usage: KeyUsage,
        own_metrics: Callable[[dict[tuple[str, str], int]], list[Metric]],
        on_lost: Callable[[], None],
    ) -> None:
        self._outcomes, self._usage, self._own_metrics, self._on_lost = outcomes, usage, own_metrics, on_lost
        self._engines: dict[str, SharedEngine] = {}
        self._early: dict[str, list[EngineUpdate]] = {}
        """What was received about engines that have no client yet."""
        self._drained = self._must_exit = False
        usage.on_change = self._usage_changed
        self._channel = Channel(connection, self)

    def client(self, config: EngineConfig, label: str, on_change: Callable[[], None]) -> SharedEngine:
        """Return the client of an engine of the main process: a ``MakeClient`` of engine pools."""

        def report(kind: Report, peer: int) -> None:
            self._channel.send(EngineReport(label, kind, peer))

        engine = self._engines[label] = SharedEngine(config, label, on_change, report)
        for update in self._early.pop(label, []):
            engine.update(update.state, update.sides, update.peer)
        return engine

    def received(self, message: object, descriptors: list[int]) -> None:
        """Handle a message of the main process."""
        match message:
            case UsageElsewhere(owner, usage):
                self._usage.set_elsewhere(owner, usage)
            case Exit():
                self._must_exit = True
            case EngineUpdate():
                self._update_engine(message, descriptors)
            case _:
                raise TypeError(f"unexpected message: {message}")

    async def answer(self, question: Question[Any]) -> object:
        """Return the answer to a question of the main process."""
        match question:
            case FindOutcome(request_id, owner):
                return FoundOutcome(self._outcomes.fields(request_id, owner))
            case GetMetrics():
                requests: dict[tuple[str, str], int] = {}
                for label, engine in self._engines.items():
                    model, _, name = label.rpartition("/")
                    requests[model, name] = engine.open_streams
                return self._own_metrics(requests)
        raise TypeError(f"unexpected question: {question}")

    def disconnected(self) -> None:
        """Handle the end of the main process."""
        if not self._must_exit:
            self._on_lost()

    async def started(self) -> None:
        """Tell the main process that this one serves requests."""
        self._channel.send(Started())

    def may_exit(self) -> bool:
        """Tell the main process that this one has no request in flight. Return whether that has said to exit."""
        if not self._drained:
            self._drained = True
            self._channel.send(Drained())
        return self._must_exit

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that another process has served. Raises ApiError 503."""
        found = await self._ask(FindOutcome(request_id, owner))
        if found.fields is None and not found.complete:
            raise no_answer()
        return found.fields

    async def metrics_page(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics page of the server, and its media type. Raises ApiError 503."""
        return await self._ask(GetMetricsPage(accept))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def _ask(self, question: Question[T]) -> T:
        """Return the answer of the main process, which may ask other processes for it. Raises ApiError 503."""
        try:
            return await self._channel.ask(question, 2 * ANSWER_SECONDS)
        except PeerLost:
            raise no_answer() from None

    def _usage_changed(self, owner: str) -> None:
        self._channel.send(OwnUsage(owner, self._usage.here(owner)))

    def _update_engine(self, update: EngineUpdate, descriptors: list[int]) -> None:
        if update.sides is not None:
            numbers = iter(descriptors)  # those of this process
            requests, audio = (replace(side, memory=next(numbers), connection=next(numbers)) for side in update.sides)
            update = replace(update, sides=(requests, audio))
        if (engine := self._engines.get(update.label)) is not None:
            engine.update(update.state, update.sides, update.peer)
        else:
            self._early.setdefault(update.label, []).append(update)
