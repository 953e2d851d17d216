"""The table of figures, each beside what it should reach and what it aims at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_DIGITS = {"%": 1, "s": 1, "ms": 0, "count": 0}
"""After the point, by unit; two without one."""


@dataclass(frozen=True)
class Figure:
    """One line. value: None when not measured; unit: "%", "s", "ms", "count" or nothing.

    A figure without ``reach`` and ``aim`` only informs.
    """

    name: str
    value: float | None
    unit: str = ""
    reach: float | None = None
    aim: float | None = None
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        """Which bound is met: "aim", "reach" or "below"; "missing" without a value; empty where nothing is asked."""
        if self.reach is None or self.aim is None:
            return ""
        if self.value is None:
            return "missing"
        return (
            "aim" if self._meets(self.value, self.aim) else "reach" if self._meets(self.value, self.reach) else "below"
        )

    def _meets(self, value: float, bound: float) -> bool:
        """As shown: what is printed as the bound meets it."""
        shown = float(self.show(value).split()[0])
        return shown >= bound if self.more_is_better else shown <= bound

    def show(self, value: float | None) -> str:
        """A value of this figure with its unit."""
        if value is None:
            return "-"
        number = f"{value:.{_DIGITS.get(self.unit, 2)}f}"
        return number if self.unit in ("", "count") else f"{number} {self.unit}"


def render(figures: Sequence[Figure]) -> str:
    """All figures, columns aligned."""
    rows = [("figure", "value", "reach", "aim", "")]
    rows += [
        (each.name, each.show(each.value), each.show(each.reach), each.show(each.aim), each.verdict) for each in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:4], widths[1:4], strict=True)),
                row[4],
            ]
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def tally(figures: Sequence[Figure]) -> str:
    """How many figures meet which bound."""
    counts = Counter(each.verdict for each in figures if each.verdict)
    return ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
