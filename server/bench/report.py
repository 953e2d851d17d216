"""Benchmark reports: tables for the terminal, and JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from server.bench.figures import Figures
from server.bench.summary import PERCENTS, Spread, Summary
from server.bench.workload import Closed, Open, RealtimeClients
from server.version import version

_BUSY = 0.8
"""CPU usage, as a share of one core, above which the client itself may limit the results."""
_LATE = 0.005
"""Delay in seconds of sending requests above which the client itself may limit the results."""
_TITLES = {
    "connect": "connected, ms",
    "header": "status line, ms",
    "first_byte": "first byte, ms",
    "playable": "first playable frame, ms",
    "audible": "first audible sample, ms",
    "heard": "played without a buffer, ms",
    "total": "total, ms",
    "gap": "longest gap between pieces, ms",
    "underrun": "underruns, ms",
    "buffered_underrun": "underruns with a buffer, ms",
    "sent": "sent late by the client, ms",
}


def comparison(summaries: Sequence[Summary]) -> Table:
    """Return a table with one row per load."""
    heads = "load", "answered", "first byte, ms", "audible, ms", "real-time factor", "with underruns", "continuity"
    table = Table(*heads, "audio s/s", box=None, pad_edge=False, caption="p50 / p95", caption_justify="left")
    for column in table.columns:
        column.no_wrap = True
        column.justify = "right" if column is not table.columns[0] else "left"
    for each in summaries:
        table.add_row(
            str(each.load),
            f"{each.succeeded}/{each.requests}",
            _pair(each.spreads["first_byte"], 1000, 1),
            _pair(each.spreads["audible"], 1000, 1),
            _pair(each.spreads["real_time_factor"], 1, 3),
            f"{each.with_underruns}/{each.succeeded}",
            _number(each.continuity, 3),
            f"{each.audio_per_second:.1f}",
        )
    return table


def details(summary: Summary) -> Table:
    """Return a table with one row per metric, for one load."""
    heads = [f"p{percent}" for percent in PERCENTS]
    table = Table(str(summary.load), *heads, "worst", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, title in _TITLES.items():
        table.add_row(title, *_numbers(summary.spreads[name], 1000, 1))
    table.add_row("real-time factor", *_numbers(summary.spreads["real_time_factor"], 1, 3))
    return table


def remarks(summaries: Sequence[Summary], buffer: float) -> Iterator[str]:
    """Yield lines with what the tables do not show: outcomes, underruns, and warnings about the client itself."""
    for each in summaries:
        answered = f"{each.succeeded} of {each.requests} answered in {each.seconds:.1f} s"
        underruns = f"{each.with_underruns} with underruns ({each.underruns} in total)"
        buffered = f"{each.with_buffered_underruns} with a buffer of {buffer:g} s"
        yield f"{each.load}: {answered}, {each.audio:.1f} s of audio; {underruns}, {buffered}"
        for outcome, count in each.outcomes.items():
            if outcome != "ok":
                yield f"  {outcome}: {count}, for example: {each.details[outcome]}"
        if each.short:
            yield f"  {each.short} shorter than requested: the model ended them"
        if each.client_busy > _BUSY:
            yield f"  the client used {each.client_busy:.0%} of a core: the server may be faster than measured"
        elif each.spreads["sent"].percentiles[95] > _LATE:
            late = 1000 * each.spreads["sent"].percentiles[95]
            yield f"  the client sent requests late (p95 {late:.1f} ms); the latencies include this delay"


def _pair(values: Spread, unit: float, digits: int) -> str:
    return f"{_number(values.percentiles[50] * unit, digits)} / {_number(values.percentiles[95] * unit, digits)}"


def _numbers(values: Spread, unit: float, digits: int) -> list[str]:
    return [_number(value * unit, digits) for value in (*values.percentiles.values(), values.worst)]


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


_WITHOUT_UNIT = frozenset({"real_time_factor"})
Result = tuple[Summary, Sequence[Figures]]


def write_report(path: Path, about: dict[str, Any], results: Sequence[Result]) -> None:
    """Write all results as JSON: ``about``, the summary of each load, and each request. Raises OSError."""
    client = {"sonant": version(), "python": platform.python_version(), "cores": os.cpu_count()}
    loads = [_load(summary, each) for summary, each in results]
    path.write_text(json.dumps({**about, "client": client, "loads": loads}, indent=1, allow_nan=False) + "\n", "utf-8")


def _load(summary: Summary, each: Sequence[Figures]) -> dict[str, Any]:
    kind = {Open: "open", Closed: "closed", RealtimeClients: "audience"}[type(summary.load)]
    return {
        "load": str(summary.load),
        "kind": kind,
        **{name: value for name, value in asdict(summary.load).items() if value is not None},
        "asked": summary.requests,
        "outcomes": summary.outcomes,
        "details": summary.details,
        "began": _rounded(summary.began),
        "wall_seconds": _rounded(summary.seconds),
        **dict(_spread(name, values) for name, values in summary.spreads.items()),
        "continuity": _rounded(summary.continuity),
        "underruns": summary.underruns,
        "listeners_run_dry": summary.with_underruns,
        "buffered_underruns": summary.buffered_underruns,
        "buffered_listeners_run_dry": summary.with_buffered_underruns,
        "short": summary.short,
        "audio_seconds": _rounded(summary.audio),
        "audio_seconds_a_second": _rounded(summary.audio_per_second),
        "client_busy": _rounded(summary.client_busy),
        "each": [_request(figures) for figures in each],
    }


def _spread(name: str, values: Spread) -> tuple[str, dict[str, float | None]]:
    """Return the field name and the JSON value of a spread. Times are in milliseconds, with the suffix ``_ms``."""
    title, unit = (name, 1.0) if name in _WITHOUT_UNIT else (f"{name}_ms", 1000.0)
    percentiles = {f"p{percent}": _rounded(value * unit) for percent, value in values.percentiles.items()}
    return title, {**percentiles, "max": _rounded(values.worst * unit)}


def _request(figures: Figures) -> dict[str, Any]:
    """Return the figures of one request, times in seconds, without missing values."""
    fields = {name: _rounded(value) if isinstance(value, float) else value for name, value in asdict(figures).items()}
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
