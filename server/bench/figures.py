"""The metrics of one request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from server.bench.realtime_client import BYTES_A_SAMPLE, heard_at, listen
from server.bench.trace import Piece, Trace

FRAME_SECONDS = 0.08
_SHORT = 0.8
"""An utterance with a requested length counts as short below this fraction of it."""


@dataclass(slots=True)
class Figures:
    """The metrics of one request, in seconds since it should have been sent; NaN for events that did not happen.

    sent: when the client sent the request, so how late it was.
    connect: when the connection was established (NaN for a reused one).
    header: when the status line arrived.
    first_byte: when the first samples arrived.
    playable: when a whole codec frame had arrived.
    audible: when the first audible sample arrived.
    heard: when a client that plays from the first byte on plays that sample.
    total: when the response ended.
    gap: longest time between two pieces.
    audio: seconds of speech. silence: seconds of it before the first audible sample.
    underruns, underrun: number and total length of the underruns of that client.
    buffered_underruns, buffered_underrun: the same for a client that buffers ``buffer`` seconds first.
    short: whether the utterance is shorter than requested.
    """

    number: int
    outcome: str
    detail: str
    intended: float
    sent: float
    connect: float
    header: float
    total: float
    first_byte: float = math.nan
    playable: float = math.nan
    audible: float = math.nan
    heard: float = math.nan
    gap: float = math.nan
    audio: float = 0.0
    silence: float = math.nan
    underruns: int = 0
    underrun: float = 0.0
    buffered_underruns: int = 0
    buffered_underrun: float = 0.0
    short: bool = False

    @property
    def ok(self) -> bool:
        """Whether the response contained speech and was complete."""
        return self.outcome == "ok"

    @property
    def real_time_factor(self) -> float:
        """Total seconds per second of speech; NaN without speech."""
        return self.total / self.audio if self.audio else math.nan


def figures_of(trace: Trace, *, began: float, buffer: float) -> Figures:
    """Return the metrics of ``trace``.

    began: start of its load, on the clock of the trace. buffer: seconds that the buffering client waits.
    """
    figures = Figures(
        number=trace.number,
        outcome=trace.outcome,
        detail=trace.detail,
        intended=trace.intended - began,
        sent=trace.sent - trace.intended,
        connect=_after(trace.intended, trace.connected),
        header=_after(trace.intended, trace.answered),
        total=trace.ended - trace.intended,
    )
    frame = round(FRAME_SECONDS * trace.rate) * BYTES_A_SAMPLE
    size = sum(size for _, size in trace.pieces)
    if figures.ok and size < frame:
        figures.outcome, figures.detail = "no audio", f"{size} bytes of samples"
    if figures.ok:
        _add_speech(figures, trace, size, frame)
        _add_listeners(figures, trace, buffer)
    return figures


def _add_speech(figures: Figures, trace: Trace, size: int, frame: int) -> None:
    """Add the metrics of arrival times and of the amount of audio."""
    moments = [moment for moment, _ in trace.pieces]
    figures.first_byte = moments[0] - trace.intended
    figures.playable = _moment_of(trace.pieces, frame) - trace.intended
    figures.gap = max((late - early for early, late in pairwise(moments)), default=0.0)
    figures.audio = size / BYTES_A_SAMPLE / trace.rate
    figures.short = trace.frames is not None and figures.audio < _SHORT * trace.frames * FRAME_SECONDS


def _add_listeners(figures: Figures, trace: Trace, buffer: float) -> None:
    """Add the metrics of the simulated real-time clients."""
    at_once, buffered = listen(trace.pieces, trace.rate), listen(trace.pieces, trace.rate, buffer)
    figures.underruns, figures.underrun = at_once.underruns, at_once.dry
    figures.buffered_underruns, figures.buffered_underrun = buffered.underruns, buffered.dry
    if trace.onset is not None:
        came, heard = heard_at(trace.pieces, trace.rate, trace.onset)
        figures.audible, figures.heard = came - trace.intended, heard - trace.intended
        figures.silence = trace.onset / trace.rate


def _moment_of(pieces: Iterable[Piece], size: int) -> float:
    """Return when ``size`` bytes of samples had arrived; NaN if they never did."""
    came = 0
    for moment, more in pieces:
        came += more
        if came >= size:
            return moment
    return math.nan


def _after(begin: float, moment: float | None) -> float:
    return math.nan if moment is None else moment - begin
