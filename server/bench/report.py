"""What a plan found, as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from server.bench.figures import Figures
from server.bench.loads import Audience, Closed, Open
from server.bench.summary import Spread, Summary
from server.version import version

_WITHOUT_UNIT = frozenset({"real_time_factor"})
Result = tuple[Summary, Sequence[Figures]]


def write_report(path: Path, about: dict[str, Any], results: Sequence[Result]) -> None:
    """Everything: what is known ``about`` the plan, each load's summary, and each request. Raises OSError."""
    client = {"sonant": version(), "python": platform.python_version(), "cores": os.cpu_count()}
    loads = [_load(summary, each) for summary, each in results]
    path.write_text(json.dumps({**about, "client": client, "loads": loads}, indent=1, allow_nan=False) + "\n", "utf-8")


def _load(summary: Summary, each: Sequence[Figures]) -> dict[str, Any]:
    kind = {Open: "open", Closed: "closed", Audience: "audience"}[type(summary.load)]
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
        "listeners_run_dry": summary.dry,
        "buffered_underruns": summary.buffered_underruns,
        "buffered_listeners_run_dry": summary.buffered_dry,
        "short": summary.short,
        "audio_seconds": _rounded(summary.audio),
        "audio_seconds_a_second": _rounded(summary.audio_a_second),
        "client_busy": _rounded(summary.client_busy),
        "each": [_request(figures) for figures in each],
    }


def _spread(name: str, values: Spread) -> tuple[str, dict[str, float | None]]:
    """Times are in milliseconds, as their names say."""
    title, unit = (name, 1.0) if name in _WITHOUT_UNIT else (f"{name}_ms", 1000.0)
    percentiles = {f"p{percent}": _rounded(value * unit) for percent, value in values.percentiles.items()}
    return title, {**percentiles, "max": _rounded(values.worst * unit)}


def _request(figures: Figures) -> dict[str, Any]:
    """In seconds; what there was not is left out."""
    fields = {name: _rounded(value) if isinstance(value, float) else value for name, value in asdict(figures).items()}
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
