"""Ends request records: writes their log line and notifies metrics, outcomes and tracing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Protocol

from engine.protocol.request import FinishReason
from server.telemetry.record import Fact, RequestRecord

log = logging.getLogger("sonant.requests")

_QUIET_PATHS = frozenset({"/health", "/ready", "/metrics"})
_QUIET_FOLDER = "/playground/"
_OF_CLIENTS = frozenset({"voice", "param"})


class Observer(Protocol):
    """Wants to know of every speech request that is over, and of every utterance of one that had several."""

    def ended(self, record: RequestRecord) -> None:
        """``record`` is complete."""


class RequestObservers:
    """Ends records: those of requests, and of the utterances in them."""

    def __init__(self, watchers: Iterable[Observer] = ()) -> None:
        self._watchers = tuple(watchers)

    def ended(self, record: RequestRecord) -> None:
        """``record`` is complete now."""
        record.ended = time.monotonic()
        facts = record.facts()
        fields = {"method": record.method, "path": record.path, **facts}
        log.log(_level(record), "%s %r %s", record.method, record.path, _line(facts), extra={"fields": fields})
        if record.is_speech:
            for watcher in self._watchers:
                watcher.ended(record)


def _line(facts: dict[str, Fact]) -> str:
    return " ".join(f"{name}={_word(name, fact)}" for name, fact in facts.items())


def _word(name: str, fact: Fact) -> str:
    if isinstance(fact, float):
        return f"{fact:.3f}"
    return repr(fact) if name in _OF_CLIENTS else str(fact)


def _level(record: RequestRecord) -> int:
    if record.completion is not None and record.completion.finish_reason is FinishReason.LENGTH:
        return logging.WARNING
    quiet = record.path in _QUIET_PATHS or record.path.startswith(_QUIET_FOLDER)
    return logging.DEBUG if quiet else logging.INFO
