"""What a plan found, for people at a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.table import Table

from server.bench.summary import PERCENTS, Spread, Summary

_BUSY = 0.8
"""A client that takes more than this of its core may be what its figures measure."""
_LATE = 0.005
"""The same of one that sends later than it should, in seconds."""
_TITLES = {
    "connect": "connected, ms",
    "header": "status line, ms",
    "first_byte": "first byte, ms",
    "playable": "first playable frame, ms",
    "audible": "first audible sample, ms",
    "heard": "heard, playing from the first byte, ms",
    "total": "all of it, ms",
    "gap": "longest gap between pieces, ms",
    "underrun": "silence by underruns, ms",
    "buffered_underrun": "the same with a buffer, ms",
    "sent": "sent late by the client, ms",
}


def comparison(summaries: Sequence[Summary]) -> Table:
    """A line a load."""
    heads = "load", "answered", "first byte, ms", "audible, ms", "real-time factor", "ran dry", "continuity"
    table = Table(*heads, "audio s a s", box=None, pad_edge=False, caption="p50 / p95", caption_justify="left")
    for column in table.columns:
        column.no_wrap = True
        column.justify = "right" if column is not table.columns[0] else "left"
    for each in summaries:
        table.add_row(
            str(each.load),
            f"{each.good}/{each.requests}",
            _pair(each.spreads["first_byte"], 1000, 1),
            _pair(each.spreads["audible"], 1000, 1),
            _pair(each.spreads["real_time_factor"], 1, 3),
            f"{each.dry}/{each.good}",
            _number(each.continuity, 3),
            f"{each.audio_a_second:.1f}",
        )
    return table


def details(summary: Summary) -> Table:
    """A line a figure."""
    heads = [f"p{percent}" for percent in PERCENTS]
    table = Table(str(summary.load), *heads, "worst", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, title in _TITLES.items():
        table.add_row(title, *_numbers(summary.spreads[name], 1000, 1))
    table.add_row("real-time factor", *_numbers(summary.spreads["real_time_factor"], 1, 3))
    return table


def remarks(summaries: Sequence[Summary], buffer: float) -> Iterator[str]:
    """What the tables do not say and a reader must know."""
    for each in summaries:
        answered = f"{each.good} of {each.requests} answered in {each.seconds:.1f} s"
        dry = f"{each.dry} ran dry ({each.underruns} underruns), {each.buffered_dry} of those who wait {buffer:g} s"
        yield f"{each.load}: {answered}, {each.audio:.1f} s of audio; {dry}"
        for outcome, count in each.outcomes.items():
            if outcome != "ok":
                yield f"  {outcome}: {count}, such as: {each.details[outcome]}"
        if each.short:
            yield f"  {each.short} were shorter than asked for: the model ended them itself"
        if each.client_busy > _BUSY:
            yield f"  the client was busy {each.client_busy:.0%} of the time: the server may be faster than this"
        elif each.spreads["sent"].percentiles[95] > _LATE:
            late = 1000 * each.spreads["sent"].percentiles[95]
            yield f"  the client sent late (p95 {late:.1f} ms), which the latencies contain"


def _pair(values: Spread, unit: float, digits: int) -> str:
    return f"{_number(values.percentiles[50] * unit, digits)} / {_number(values.percentiles[95] * unit, digits)}"


def _numbers(values: Spread, unit: float, digits: int) -> list[str]:
    return [_number(value * unit, digits) for value in (*values.percentiles.values(), values.worst)]


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"
