"""The table of figures, each with two bounds: the minimum to reach and the target to aim at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_DIGITS = {"%": 1, "s": 1, "ms": 0, "count": 0}
"""Decimals by unit; two for figures without a unit."""


@dataclass(frozen=True)
class Figure:
    """One row. value: None if not measured. unit: "%", "s", "ms", "count" or nothing.

    A figure without ``reach`` and ``aim`` has no verdict.
    """

    name: str
    value: float | None
    unit: str = ""
    reach: float | None = None
    aim: float | None = None
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        """The bound that is met: "aim", "reach" or "below"; "missing" without a value; empty without bounds."""
        if self.reach is None or self.aim is None:
            return ""
        if self.value is None:
            return "missing"
        return (
            "aim" if self._meets(self.value, self.aim) else "reach" if self._meets(self.value, self.reach) else "below"
        )

    def _meets(self, value: float, bound: float) -> bool:
        """Return whether the value meets the bound, rounded as it is printed."""
        shown = float(self.show(value).split()[0])
        return shown >= bound if self.more_is_better else shown <= bound

    def show(self, value: float | None) -> str:
        """Return the value with its unit."""
        if value is None:
            return "-"
        number = f"{value:.{_DIGITS.get(self.unit, 2)}f}"
        return number if self.unit in ("", "count") else f"{number} {self.unit}"


def render(figures: Sequence[Figure]) -> str:
    """Return the table as text with aligned columns."""
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
    """Return the number of figures by verdict."""
    counts = Counter(each.verdict for each in figures if each.verdict)
    return ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
