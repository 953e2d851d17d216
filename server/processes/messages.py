"""The messages between the main HTTP process of a server and an additional one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from prometheus_client.metrics_core import Metric

from engine.client.shared_engine import EngineState, Report
from engine.transfer import Side
from server.keys.usage import Usage

Answer = TypeVar("Answer")


class Question(Generic[Answer]):
    """A message that is answered."""


@dataclass(frozen=True, slots=True)
class Started:
    """From an additional process: it serves requests."""


@dataclass(frozen=True, slots=True)
class Drained:
    """From an additional process that is stopping: it has no request in flight."""


@dataclass(frozen=True, slots=True)
class Exit:
    """To an additional process: no process has a request in flight, or all stop at once."""


@dataclass(frozen=True, slots=True)
class OwnUsage:
    """From an additional process: what a key uses there."""

    owner: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class UsageElsewhere:
    """To an additional process: what a key uses in all others."""

    owner: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class EngineReport:
    """From an additional process, about an engine. peer: the number of its links, so that a late report is known."""

    label: str
    report: Report
    peer: int


@dataclass(frozen=True, slots=True)
class EngineUpdate:
    """To an additional process: the state of an engine.

    sides: of new links to its process, with number ``peer``; their descriptors come with the message.
    """

    label: str
    state: EngineState
    sides: tuple[Side, Side] | None
    peer: int


@dataclass(frozen=True, slots=True)
class FindOutcome(Question["FoundOutcome"]):
    """Asks for the outcome of a request."""

    request_id: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class FoundOutcome:
    """fields: the outcome; None if it was not found. complete: whether all processes were asked and have answered."""

    fields: dict[str, Any] | None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class GetMetrics(Question[list[Metric]]):
    """Asks an additional process for its metrics."""


@dataclass(frozen=True, slots=True)
class GetMetricsPage(Question[tuple[bytes, str]]):
    """Asks the main process for the metrics page of the server, and its media type."""

    accept: str
