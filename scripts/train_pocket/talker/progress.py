"""Where a run stands: its time, its learning rate, and lines about it."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from scripts.train_pocket.config import TalkerTraining
from scripts.train_pocket.machines import first_ones, rank, world
from scripts.train_pocket.talker.feed import Rows
from scripts.train_pocket.talker.losses import Losses

_ASKED = 10
"""Steps between looks at the first process's clock, which every process goes by."""
_LINE_SECONDS = 10.0


class Timetable:
    """The learning rate by time: warmed up over some steps, then falling in a line until the time is over.

    begin: of time.monotonic(); seconds: from then on; start: where in the schedule, 0 to 1, this run begins.
    """

    def __init__(self, begin: float, seconds: float, start: float, settings: TalkerTraining) -> None:
        self._begin, self._seconds, self._settings = begin, seconds, settings
        self._start = start if start < 1 else 0.0
        self._first_step: int | None = None
        self._common = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begin

    @property
    def progress(self) -> float:
        """Of the schedule, 0 to 1."""
        return self._start + (1 - self._start) * self._common

    def over(self, step: int) -> bool:
        """Whether the time is over. To be asked before each step, by every process."""
        if self._first_step is None:
            self._first_step = step
        if world() == 1 or (step - self._first_step) % _ASKED == 0:
            self._common = first_ones(min(1.0, self.elapsed / self._seconds))
        return self._common >= 1

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        settings, done = self._settings, step - (self._first_step or 0)
        falling = 1 - (1 - settings.last_rate) * self.progress
        return settings.learning_rate * falling * min(1.0, (done + 1) / settings.warm_up)


class Log:
    """A line every ten seconds, from the first process; figures stay on the device until then."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._clear()

    def add(self, step: int, rows: Rows, found: Losses, norm: Tensor, rate: float, waited: float) -> None:
        """Note a step; waited: seconds until its batch was there."""
        self._figures.append(torch.stack((found.first, found.books.mean(), norm)))
        self._positions += rows.text.numel()
        self._waited += waited
        seconds = time.monotonic() - self._since
        if seconds >= _LINE_SECONDS:
            self._line(step, seconds, rate)
            self._clear()

    def print(self, text: str) -> None:
        """A line with the time."""
        print(f"[{self._timetable.elapsed:7.1f} s] {text}", flush=True)

    def _line(self, step: int, seconds: float, rate: float) -> None:
        if rank():
            return
        first, books, norm = torch.stack(self._figures).mean(0).tolist()
        speed = self._positions * world() / seconds / 1000
        self.print(
            f"step {step} c0 {first:.3f} books {books:.3f} norm {norm:.2f} rate {rate:.2e} | "
            f"{speed:.0f}k positions/s, {len(self._figures) / seconds:.1f} steps/s, "
            f"{100 * self._waited / seconds:.0f} % waiting for batches"
        )

    def _clear(self) -> None:
        self._figures: list[Tensor] = []
        self._positions, self._waited, self._since = 0, 0.0, time.monotonic()
