"""Shares the engines of this process with another one, and tells it their state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engine.client.shared_engine import EngineState
from engine.errors import EngineError, EngineUnavailable
from engine.pool.member import PoolMember
from engine.transfer import Side

_log = logging.getLogger(__name__)

Tell = Callable[[str, EngineState, tuple[Side, Side] | None, int], None]
"""Is called with the label of an engine, its state, new links to its process (or None), and their peer number.

It takes ownership of the links.
"""


class EngineShares:
    """Tells one other process the state of each engine when it changes, with links to each new engine process.

    Args:
        engines: the engines.
        peers: the numbers of the links, each of which is used once.
        tell: tells the other process.
    """

    def __init__(self, engines: Sequence[PoolMember], peers: Iterator[int], tell: Tell) -> None:
        self._engines, self._peers, self._tell = engines, peers, tell
        self._told: dict[PoolMember, dict[str, Any]] = {}
        self._joined: dict[PoolMember, int] = {}
        """The run of each engine whose process has a link to the other process."""
        for engine in engines:
            engine.add_observer(self._update)
        self._update()

    def close(self) -> None:
        """Tell nothing more."""
        for engine in self._engines:
            engine.remove_observer(self._update)

    def engine(self, label: str) -> PoolMember | None:
        """Return the engine with that label, or None."""
        return next((each for each in self._engines if each.label == label), None)

    def _update(self) -> None:
        for engine in self._engines:
            state, joined = state_of(engine), self._join(engine)
            if joined is not None or self._told.get(engine) != state.to_fields():
                self._told[engine] = state.to_fields()
                sides, peer = (None, 0) if joined is None else joined
                self._tell(engine.label, state, sides, peer)

    def _join(self, engine: PoolMember) -> tuple[tuple[Side, Side], int] | None:
        """Return links to the process of ``engine`` with their number, unless it has some or accepts no requests."""
        client = engine.owned
        if client is None or not engine.accepting or self._joined.get(engine) == client.runs:
            return None
        peer = next(self._peers)
        try:
            sides = client.join(peer)
        except (EngineError, OSError) as error:
            _log.warning("engine %s could not be shared: %s", engine.label, error)
            return None
        self._joined[engine] = client.runs
        return sides, peer


def state_of(engine: PoolMember) -> EngineState:
    """Return the state of an engine of this process."""
    failure = engine.failure
    if engine.state is None:
        failure = EngineUnavailable("the engine is not loaded; retry later")
    return EngineState(engine.state or "starting", engine.suspect, engine.stalled, failure, engine.info)
