"""Completes request records: writes the request log line and notifies metrics, outcomes and tracing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Protocol

from engine.protocol.request import FinishReason
from server.telemetry.record import FieldValue, RequestRecord

log = logging.getLogger("sonant.requests")

_QUIET_PATHS = frozenset({"/health", "/ready", "/metrics"})
_QUIET_PREFIX = "/playground/"
_CLIENT_TEXT = frozenset({"voice", "param"})
"""Fields with text of the client, which the log quotes."""


class Observer(Protocol):
    """Is notified of every finished speech request, and of every finished utterance of a multi-utterance request."""

    def ended(self, record: RequestRecord) -> None:
        """Handle ``record``, which is complete."""


class RequestObservers:
    """Completes the records of requests and of their utterances, logs them and notifies the observers."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def complete(self, record: RequestRecord) -> None:
        """Set the end time of ``record``, write its log line, and notify the observers if it is a speech request."""
        record.ended = time.monotonic()
        fields = record.fields()
        all_fields = {"method": record.method, "path": record.path, **fields}
        log.log(_level(record), "%s %r %s", record.method, record.path, _line(fields), extra={"fields": all_fields})
        if record.is_speech:
            for observer in self._observers:
                observer.ended(record)


def _line(fields: dict[str, FieldValue]) -> str:
    return " ".join(f"{name}={_formatted(name, value)}" for name, value in fields.items())


def _formatted(name: str, value: FieldValue) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return repr(value) if name in _CLIENT_TEXT else str(value)


def _level(record: RequestRecord) -> int:
    if record.completion is not None and record.completion.finish_reason is FinishReason.LENGTH:
        return logging.WARNING
    quiet = record.path in _QUIET_PATHS or record.path.startswith(_QUIET_PREFIX)
    return logging.DEBUG if quiet else logging.INFO
