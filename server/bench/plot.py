"""Plots of benchmark results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from server.bench.figures import Figures
from server.bench.workload import Load

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Loads = Sequence[tuple[Load, Sequence[Figures]]]

_PLAIN = "{x:g}"
_PANELS = (("first_byte", "first byte, ms"), ("audible", "first audible sample, ms"))


def check_plot(path: Path) -> None:
    """Raise ValueError when matplotlib is missing, or does not support the file extension."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise ValueError("--plot: matplotlib is not installed: pip install 'sonant[plot]'") from None
    extensions = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in extensions:
        known = ", ".join(f".{extension}" for extension in sorted(extensions))
        raise ValueError(f"--plot: the file extension must be one of {known}, got {path}")


def write_plot(path: Path, title: str, loads: Loads) -> None:
    """Plot, for each load, the latency distributions and the latency over time. Raises OSError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), layout="constrained")
    figure.suptitle(title)
    *distributions, timeline = figure.subplots(1, len(_PANELS) + 1)
    for axes, (name, label) in zip(distributions, _PANELS, strict=True):
        _draw_distribution(axes, name, label, loads)
    _draw_timeline(timeline, loads)
    figure.legend(*timeline.get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(path)


def _draw_distribution(axes: Axes, name: str, label: str, loads: Loads) -> None:
    """Draw the empirical distribution (CDF) of a latency."""
    for index, (_, each) in enumerate(loads):
        if values := sorted(
            1000 * getattr(figures, name) for figures in each if not math.isnan(getattr(figures, name))
        ):
            axes.ecdf(values, color=_color(index, len(loads)))
    axes.set(xscale="log", xlabel=label, ylabel="share of requests")
    axes.xaxis.set_major_formatter(_PLAIN)
    axes.grid(alpha=0.3)


def _draw_timeline(axes: Axes, loads: Loads) -> None:
    """Draw the latency of each request over its start time. A server that falls behind shows as a slope."""
    for index, (load, each) in enumerate(loads):
        audible = [figures for figures in each if not math.isnan(figures.audible)]
        starts, latencies = [each.intended for each in audible], [1000 * each.audible for each in audible]
        axes.scatter(starts, latencies, s=8, color=_color(index, len(loads)), label=str(load))
    axes.set(yscale="log", xlabel="start of the request, s", ylabel="first audible sample, ms")
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.grid(alpha=0.3)


def _color(index: int, count: int) -> tuple[float, ...]:
    from matplotlib import colormaps

    return tuple(colormaps["viridis"](index / max(1, count - 1) * 0.9))
