"""The recorded events of one request."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_MAX_DETAIL_CHARS = 300

Piece = tuple[float, int]
"""Arrival time, and number of bytes of samples."""


@dataclass(slots=True)
class Trace:
    """Timestamps of one request in seconds, on the clock of ``time.perf_counter``; None for events that did not happen.

    Attributes:
        intended: when the request should have been sent.
        sent: when it was sent; later only if the client was busy.
        frames: the requested length of the utterance, or None.
        pieces: the pieces of the body, in order of arrival.
        rate: sample rate in Hz.
        onset: index of the first audible sample.
        outcome: ``"ok"``, a status other than 200, or another kind of failure, with ``detail``.
    """

    number: int
    intended: float
    sent: float
    frames: int | None = None
    connected: float | None = None
    answered: float | None = None
    ended: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    rate: int = 24_000
    onset: int | None = None
    outcome: str = "ok"
    detail: str = ""

    def end(self, outcome: str, detail: str) -> None:
        """Record the end of the request."""
        self.ended = time.perf_counter()
        self.outcome, self.detail = outcome, " ".join(detail.split())[:_MAX_DETAIL_CHARS]
