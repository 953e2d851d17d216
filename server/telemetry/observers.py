"""Completes request records: writes the request log line and notifies metrics, outcomes and tracing."""

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
    """Is notified of every finished speech request, and of every finished utterance of a multi-utterance request."""

    def ended(self, record: RequestRecord) -> None:
        """Handle ``record``, which is complete."""


class RequestObservers:
    """Completes the records of requests and of their utterances, logs them and notifies the observers."""

    def __init__(self, watchers: Iterable[Observer] = ()) -> None:
        self._watchers = tuple(watchers)

    def ended(self, record: RequestRecord) -> None:
        """Set the end time of ``record``, write its log line, and notify the observers if it is a speech request."""
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
