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
        raise ValueError("a plot needs matplotlib: pip install 'sonant[plot]'") from None
    kinds = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in kinds:
        raise ValueError(f"{path}: a plot ends in one of {', '.join(f'.{kind}' for kind in sorted(kinds))}")


def write_plot(path: Path, title: str, loads: Loads) -> None:
    """Plot, for each load, the latency distributions and the latency over time. Raises OSError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), layout="constrained")
    figure.suptitle(title)
    *shares, course = figure.subplots(1, len(_PANELS) + 1)
    for axes, (name, label) in zip(shares, _PANELS, strict=True):
        _draw_shares(axes, name, label, loads)
    _draw_course(course, loads)
    figure.legend(*course.get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(path)


def _draw_shares(axes: Axes, name: str, label: str, loads: Loads) -> None:
    """Draw the empirical distribution (CDF) of a latency."""
    for index, (_, each) in enumerate(loads):
        if values := sorted(
            1000 * getattr(figures, name) for figures in each if not math.isnan(getattr(figures, name))
        ):
            axes.ecdf(values, color=_colour(index, len(loads)))
    axes.set(xscale="log", xlabel=label, ylabel="share of requests")
    axes.xaxis.set_major_formatter(_PLAIN)
    axes.grid(alpha=0.3)


def _draw_course(axes: Axes, loads: Loads) -> None:
    """Draw the latency of each request over its start time. A server that falls behind shows as a slope."""
    for index, (load, each) in enumerate(loads):
        heard = [figures for figures in each if not math.isnan(figures.audible)]
        moments, waits = [each.intended for each in heard], [1000 * each.audible for each in heard]
        axes.scatter(moments, waits, s=8, color=_colour(index, len(loads)), label=str(load))
    axes.set(yscale="log", xlabel="asked after, s", ylabel="first audible sample, ms")
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.grid(alpha=0.3)


def _colour(index: int, count: int) -> tuple[float, ...]:
    from matplotlib import colormaps

    return tuple(colormaps["viridis"](index / max(1, count - 1) * 0.9))
