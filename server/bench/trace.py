"""What was recorded of one request."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_MOST_DETAIL = 300

Piece = tuple[float, int]
"""The moment it came, and how many bytes of samples it had."""


@dataclass(slots=True)
class Trace:
    """Moments of one clock, in seconds; None for what never came.

    intended: when the request should have been sent. sent: when it was, which is later only if the client was busy.
    pieces: of the body, in the order in which they came. onset: the first sample that can
    be heard. outcome: ``"ok"``, a status other than 200, or what else went wrong, with ``detail``.
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
        """It is over."""
        self.ended = time.perf_counter()
        self.outcome, self.detail = outcome, " ".join(detail.split())[:_MOST_DETAIL]
