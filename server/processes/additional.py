"""In an additional HTTP process: its connection to the main one, which runs the engines."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from engine.client.shared_engine import EngineState, SharedEngine
from engine.config import EngineConfig
from engine.transfer import Side
from server.errors import ApiError
from server.keys.usage import KeyUsage, Usage
from server.processes.channel import Channel, Message, PeerLost
from server.processes.peers import ANSWER_SECONDS
from server.telemetry.merged_metrics import Families
from server.telemetry.outcomes import Outcomes


class MainPeer:
    """Uses the engines of the main process, and asks it for what only one process knows. Use it in one event loop.

    Args:
        connection: to the main process.
        outcomes, usage: of this process.
        own_metrics: returns the metrics of this process, given the requests in each engine, by model and engine.
        on_lost: is called when the main process has ended.
    """

    def __init__(
        self,
        connection: socket.socket,
        outcomes: Outcomes,
        usage: KeyUsage,
        own_metrics: Callable[[dict[tuple[str, str], int]], Families],
        on_lost: Callable[[], None],
    ) -> None:
        self._outcomes, self._usage, self._own_metrics, self.lost = outcomes, usage, own_metrics, on_lost
        self._engines: dict[str, SharedEngine] = {}
        self._early: dict[str, list[tuple[EngineState, tuple[Side, Side] | None, int]]] = {}
        """What was told of engines that have no client yet."""
        self._drained = self._must_exit = False
        usage.on_change = self._usage_changed
        self._channel = Channel(connection, self)

    def client(self, config: EngineConfig, label: str, on_change: Callable[[], None]) -> SharedEngine:
        """Return the client of an engine of the main process: a ``MakeClient`` of engine pools."""

        def report(kind: str, message: str) -> None:
            self._channel.tell({"what": "engine", "label": label, "report": kind, "message": message})

        engine = self._engines[label] = SharedEngine(config, label, on_change, report)
        for state, sides, peer in self._early.pop(label, []):
            engine.update(state, sides, peer)
        return engine

    def told(self, message: Message, descriptors: list[int]) -> None:
        """Handle what the main process tells."""
        if message["what"] == "usage":
            self._usage.set_elsewhere(message["owner"], Usage(message["running"], message["audio_seconds"]))
            return
        if message["what"] == "exit":
            self._must_exit = True
            return
        sides: tuple[Side, Side] | None = None
        if descriptors:
            requests, audio = message["links"]
            sides = Side(*descriptors[:2], *requests), Side(*descriptors[2:], *audio)
        update = EngineState.from_fields(message["state"]), sides, message["peer"]
        if (engine := self._engines.get(message["label"])) is not None:
            engine.update(*update)
        else:
            self._early.setdefault(message["label"], []).append(update)

    async def asked(self, message: Message) -> Any:
        """Answer a question of the main process."""
        if message["what"] == "outcome":
            return self._outcomes.fields(message["id"], message["owner"])
        labels = {label: (*label.rpartition("/")[::2],) for label in self._engines}
        return self._own_metrics({labels[label]: engine.open_streams for label, engine in self._engines.items()})

    async def started(self) -> None:
        """Tell the main process that this one serves requests."""
        self._channel.tell({"what": "started"})

    def may_exit(self) -> bool:
        """Tell the main process that this one has no request in flight. Return whether that has said to exit."""
        if not self._drained:
            self._drained = True
            self._channel.tell({"what": "drained"})
        return self._must_exit

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that another process has served; None if there is none."""
        try:
            found: dict[str, Any] | None = await self._ask({"what": "outcome", "id": request_id, "owner": owner})
        except PeerLost:
            return None
        return found

    async def metrics(self) -> list[Families]:
        """Return nothing: the main process collects the metrics."""
        return []

    async def metrics_page(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics page of the server, and its media type. Raises ApiError 503."""
        try:
            page, media_type = await self._ask({"what": "metrics", "accept": accept})
        except PeerLost:
            message = "the main HTTP process, which collects the metrics, does not answer; try again later"
            raise ApiError(message, status=503, code="server_busy") from None
        return page.encode(), media_type

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def _ask(self, question: Message) -> Any:
        return await self._channel.ask(question, 2 * ANSWER_SECONDS)

    def _usage_changed(self, owner: str) -> None:
        self._channel.tell({"what": "usage", "owner": owner, **self._usage.here(owner)._asdict()})
