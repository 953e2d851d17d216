"""Shares the engines of this process with another one, and sends it their state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from engine.client.shared_engine import EngineState
from engine.errors import EngineError, EngineUnavailable
from engine.pool.member import PoolMember
from engine.transfer import Side

_RETRY_SECONDS = 1.0
"""Pause before links that were lost, or could not be created, are created again."""
_log = logging.getLogger(__name__)

SendState = Callable[[str, EngineState, tuple[Side, Side] | None, int], None]
"""Sends the label of an engine, its state, new links to its process (or None), and their peer number.

It takes ownership of the links.
"""


class EngineShares:
    """Sends one other process the state of each engine when it changes, with links to each new engine process.

    Args:
        engines: the engines.
        peers: the numbers of the links, each of which is used once.
        send: sends the state of an engine to the other process.
    """

    def __init__(self, engines: Sequence[PoolMember], peers: Iterator[int], send: SendState) -> None:
        self._engines, self._peers, self._send = engines, peers, send
        self._sent: dict[PoolMember, tuple[EngineState, str]] = {}
        self._joined: dict[PoolMember, tuple[int, int]] = {}
        """For each engine whose process has links to the other process: its run, and the number of the links."""
        self._retry: asyncio.TimerHandle | None = None
        for engine in engines:
            engine.add_observer(self._update)
        self._update()

    def close(self) -> None:
        """Send nothing more."""
        if self._retry is not None:
            self._retry.cancel()
        for engine in self._engines:
            engine.remove_observer(self._update)

    def engine(self, label: str) -> PoolMember | None:
        """Return the engine with that label, or None."""
        return next((each for each in self._engines if each.label == label), None)

    def has_links(self, engine: PoolMember, peer: int) -> bool:
        """Return whether the links of the other process to ``engine`` are those with number ``peer``."""
        return engine in self._joined and self._joined[engine][1] == peer

    def replace_links(self, engine: PoolMember) -> None:
        """Give the other process new links to ``engine``, because it has lost its own, if the engine process runs."""
        del self._joined[engine]
        self._update_later()

    def _update(self) -> None:
        for engine in self._engines:
            state, joined = state_of(engine), self._join(engine)
            content = replace(state, failure=None), str(state.failure)  # exceptions have no equality
            if joined is not None or self._sent.get(engine) != content:
                self._sent[engine] = content
                sides, peer = (None, 0) if joined is None else joined
                self._send(engine.label, state, sides, peer)

    def _join(self, engine: PoolMember) -> tuple[tuple[Side, Side], int] | None:
        """Return links to the process of ``engine`` with their number, unless it has some or accepts no requests."""
        client = engine.owned
        if client is None or not engine.accepting or self._joined.get(engine, (0, 0))[0] == client.runs:
            return None
        peer = next(self._peers)
        try:
            sides = client.join(peer)
        except (EngineError, OSError) as error:
            _log.warning("engine %s could not be shared: %s", engine.label, error)
            self._update_later()
            return None
        self._joined[engine] = client.runs, peer
        return sides, peer

    def _update_later(self) -> None:
        if self._retry is None or self._retry.when() <= asyncio.get_running_loop().time():
            self._retry = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._update)


def state_of(engine: PoolMember) -> EngineState:
    """Return the state of an engine of this process."""
    failure = engine.failure
    if engine.state is None:
        failure = EngineUnavailable("the engine is not loaded; retry later")
    return EngineState(engine.state or "starting", engine.suspect, engine.stalled, failure, engine.info)
