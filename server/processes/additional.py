"""In an additional HTTP process: its connection to the main one, which runs the engines."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from engine.client.shared_engine import EngineState, Report, SharedEngine
from engine.config import EngineConfig
from engine.transfer import Side
from server.keys.usage import KeyUsage, Usage
from server.processes.channel import Channel, Message, PeerLost
from server.processes.peers import ANSWER_SECONDS, no_answer
from server.telemetry.merged_metrics import Families
from server.telemetry.outcomes import Outcomes


class MainPeer:
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
        own_metrics: Callable[[dict[tuple[str, str], int]], Families],
        on_lost: Callable[[], None],
    ) -> None:
        self._outcomes, self._usage, self._own_metrics, self._on_lost = outcomes, usage, own_metrics, on_lost
        self._engines: dict[str, SharedEngine] = {}
        self._early: dict[str, list[tuple[EngineState, tuple[Side, Side] | None, int]]] = {}
        """What was received about engines that have no client yet."""
        self._drained = self._must_exit = False
        usage.on_change = self._usage_changed
        self._channel = Channel(connection, self)

    def client(self, config: EngineConfig, label: str, on_change: Callable[[], None]) -> SharedEngine:
        """Return the client of an engine of the main process: a ``MakeClient`` of engine pools."""

        def report(kind: Report, peer: int) -> None:
            self._channel.send({"what": "engine", "label": label, "report": kind, "peer": peer})

        engine = self._engines[label] = SharedEngine(config, label, on_change, report)
        for state, sides, peer in self._early.pop(label, []):
            engine.update(state, sides, peer)
        return engine

    def received(self, message: Message, descriptors: list[int]) -> None:
        """Handle a message of the main process."""
        match message["what"]:
            case "usage":
                self._usage.set_elsewhere(message["owner"], Usage(*message["usage"]))
            case "exit":
                self._must_exit = True
            case "engine":
                self._update_engine(message, descriptors)

    async def answer(self, message: Message) -> Any:
        """Return the answer to a question of the main process."""
        if message["what"] == "outcome":
            return self._outcomes.fields(message["id"], message["owner"])
        requests: dict[tuple[str, str], int] = {}
        for label, engine in self._engines.items():
            model, _, name = label.rpartition("/")
            requests[model, name] = engine.open_streams
        return self._own_metrics(requests)

    def disconnected(self) -> None:
        """Handle the end of the main process."""
        if not self._must_exit:
            self._on_lost()

    async def started(self) -> None:
        """Tell the main process that this one serves requests."""
        self._channel.send({"what": "started"})

    def may_exit(self) -> bool:
        """Tell the main process that this one has no request in flight. Return whether that has said to exit."""
        if not self._drained:
            self._drained = True
            self._channel.send({"what": "drained"})
        return self._must_exit

    async def wait_ended(self, timeout: float) -> None:
        """Do nothing: the main process waits for this one."""

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that another process has served. Raises ApiError 503."""
        answered, found = await self._ask({"what": "outcome", "id": request_id, "owner": owner})
        if found is None and not answered:
            raise no_answer()
        outcome: dict[str, Any] | None = found
        return outcome

    async def metrics(self) -> list[Families]:
        """Return nothing: the main process collects the metrics."""
        return []

    async def metrics_page(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics page of the server, and its media type. Raises ApiError 503."""
        page, media_type = await self._ask({"what": "metrics", "accept": accept})
        return page.encode(), media_type

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def _ask(self, question: Message) -> Any:
        """Return the answer of the main process, which may ask other processes for it. Raises ApiError 503."""
        try:
            return await self._channel.ask(question, 2 * ANSWER_SECONDS)
        except PeerLost:
            raise no_answer() from None

    def _usage_changed(self, owner: str) -> None:
        self._channel.send({"what": "usage", "owner": owner, "usage": self._usage.here(owner)})

    def _update_engine(self, message: Message, descriptors: list[int]) -> None:
        sides: tuple[Side, Side] | None = None
        if descriptors:
            requests, audio = message["links"]
            sides = Side(*descriptors[:2], *requests), Side(*descriptors[2:], *audio)
        update = EngineState.from_fields(message["state"]), sides, message["peer"]
        if (engine := self._engines.get(message["label"])) is not None:
            engine.update(*update)
        else:
            self._early.setdefault(message["label"], []).append(update)
