"""The metrics of one request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from server.bench.realtime_client import BYTES_PER_SAMPLE, play, played_at
from server.bench.trace import Piece, Trace

FRAME_SECONDS = 0.08
_SHORT = 0.8
"""An utterance with a requested length counts as short below this fraction of it."""


@dataclass(slots=True)
class Figures:
    """The metrics of one request, in seconds since it should have been sent; NaN for events that did not happen.

    Attributes:
        sent: when the client sent the request: how late it was.
        connect: when the connection was established (NaN for a reused one).
        header: when the status line arrived.
        first_byte: when the first samples arrived.
        playable: when a complete codec frame had arrived.
        audible: when the first audible sample arrived.
        heard: when a client that plays from the first byte on plays that sample.
        total: when the response ended.
        gap: longest time between two pieces.
        audio: seconds of speech.
        silence: seconds of it before the first audible sample.
        underruns: number of underruns of a client that plays from the first byte on.
        underrun: total length of these underruns.
        buffered_underruns: number of underruns of a client that buffers ``buffer`` seconds first.
        buffered_underrun: total length of these underruns.
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

    Args:
        trace: the recorded request.
        began: start of its load, on the clock of the trace.
        buffer: seconds that the buffering client waits.
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
    frame = round(FRAME_SECONDS * trace.rate) * BYTES_PER_SAMPLE
    size = sum(size for _, size in trace.pieces)
    if figures.ok and size < frame:
        figures.outcome, figures.detail = "no audio", f"{size} bytes of samples"
    if figures.ok:
        _add_speech(figures, trace, size, frame)
        _add_playback(figures, trace, buffer)
    return figures


def _add_speech(figures: Figures, trace: Trace, size: int, frame: int) -> None:
    """Add the metrics of arrival times and of the amount of audio."""
    arrivals = [arrived for arrived, _ in trace.pieces]
    figures.first_byte = arrivals[0] - trace.intended
    figures.playable = _arrival_of(trace.pieces, frame) - trace.intended
    figures.gap = max((late - early for early, late in pairwise(arrivals)), default=0.0)
    figures.audio = size / BYTES_PER_SAMPLE / trace.rate
    figures.short = trace.frames is not None and figures.audio < _SHORT * trace.frames * FRAME_SECONDS


def _add_playback(figures: Figures, trace: Trace, buffer: float) -> None:
    """Add the metrics of the simulated real-time clients."""
    immediate, buffered = play(trace.pieces, trace.rate), play(trace.pieces, trace.rate, buffer)
    figures.underruns, figures.underrun = immediate.underruns, immediate.underrun_seconds
    figures.buffered_underruns, figures.buffered_underrun = buffered.underruns, buffered.underrun_seconds
    if trace.onset is not None:
        arrived, played = played_at(trace.pieces, trace.rate, trace.onset)
        figures.audible, figures.heard = arrived - trace.intended, played - trace.intended
        figures.silence = trace.onset / trace.rate


def _arrival_of(pieces: Iterable[Piece], size: int) -> float:
    """Return when ``size`` bytes of samples had arrived; NaN if they never did."""
    received = 0
    for arrived, more in pieces:
        received += more
        if received >= size:
            return arrived
    return math.nan


def _after(begin: float, event: float | None) -> float:
    return math.nan if event is None else event - begin
