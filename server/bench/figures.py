"""What one request was like for whoever listened."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from server.bench.realtime_client import BYTES_A_SAMPLE, heard_at, listen
from server.bench.trace import Piece, Trace

FRAME_SECONDS = 0.08
_SHORT = 0.8
"""An utterance that was cut to a length should have at least this much of it."""


@dataclass(slots=True)
class Figures:
    """Of one request, in seconds since it should have been sent; NaN for what there was not.

    sent: how late the client was. connect: the connection stands (NaN where one was used again). header: the status
    line has come. first_byte: the first samples have. playable: a whole codec frame has. audible: the first sample
    that can be heard has. heard: a listener who plays from the first byte on hears it. total: the end has come.
    gap: the longest time between two pieces. audio: seconds of speech. silence: of it, before the audible sample.
    underruns, underrun: how often that listener ran dry, and for how long in all; the same for one who waits with
    ``buffer`` in hand as ``buffered_...``. short: less was said than was asked for.
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
        """There was speech, to its end."""
        return self.outcome == "ok"

    @property
    def real_time_factor(self) -> float:
        """Seconds in all for a second of speech; NaN where there was none."""
        return self.total / self.audio if self.audio else math.nan


def figures_of(trace: Trace, *, began: float, buffer: float) -> Figures:
    """The figures of ``trace``. began: of its load, on its clock. buffer: seconds that the second listener waits."""
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
    """What came, and when."""
    moments = [moment for moment, _ in trace.pieces]
    figures.first_byte = moments[0] - trace.intended
    figures.playable = _moment_of(trace.pieces, frame) - trace.intended
    figures.gap = max((late - early for early, late in pairwise(moments)), default=0.0)
    figures.audio = size / BYTES_A_SAMPLE / trace.rate
    figures.short = trace.frames is not None and figures.audio < _SHORT * trace.frames * FRAME_SECONDS


def _add_listeners(figures: Figures, trace: Trace, buffer: float) -> None:
    """What those who listened had of it."""
    at_once, buffered = listen(trace.pieces, trace.rate), listen(trace.pieces, trace.rate, buffer)
    figures.underruns, figures.underrun = at_once.underruns, at_once.dry
    figures.buffered_underruns, figures.buffered_underrun = buffered.underruns, buffered.dry
    if trace.onset is not None:
        came, heard = heard_at(trace.pieces, trace.rate, trace.onset)
        figures.audible, figures.heard = came - trace.intended, heard - trace.intended
        figures.silence = trace.onset / trace.rate


def _moment_of(pieces: Iterable[Piece], size: int) -> float:
    """When so many bytes of samples had come; NaN where they never had."""
    came = 0
    for moment, more in pieces:
        came += more
        if came >= size:
            return moment
    return math.nan


def _after(begin: float, moment: float | None) -> float:
    return math.nan if moment is None else moment - begin
