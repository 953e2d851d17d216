"""The progress of a run: time, learning rate, and log lines."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from scripts.train_pocket.config import TalkerTraining
from scripts.train_pocket.distributed import broadcast_value, rank, world_size
from scripts.train_pocket.talker.feed import Rows
from scripts.train_pocket.talker.losses import Losses

_CLOCK_INTERVAL = 10
"""Steps between broadcasts of the clock of rank 0, which all processes use."""
_LOG_SECONDS = 10.0


class Timetable:
    """The learning rate by time: a warm-up over some steps, then a linear decay until the time is over.

    begin: value of time.monotonic(). seconds: length of the run. start: position in the schedule at which it starts, 0
    to 1.
    """

    def __init__(self, begin: float, seconds: float, start: float, settings: TalkerTraining) -> None:
        self._begin, self._seconds, self._settings = begin, seconds, settings
        self._start = start if start < 1 else 0.0
        self._first_step: int | None = None
        self._shared_progress = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since ``begin``."""
        return time.monotonic() - self._begin

    @property
    def progress(self) -> float:
        """Position in the schedule, 0 to 1."""
        return self._start + (1 - self._start) * self._shared_progress

    def is_over(self, step: int) -> bool:
        """Return whether the time is over. All processes must call this before each step."""
        if self._first_step is None:
            self._first_step = step
        if world_size() == 1 or (step - self._first_step) % _CLOCK_INTERVAL == 0:
            self._shared_progress = broadcast_value(min(1.0, self.elapsed / self._seconds))
        return self._shared_progress >= 1

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        settings, done = self._settings, step - (self._first_step or 0)
        decay = 1 - (1 - settings.last_rate) * self.progress
        return settings.learning_rate * decay * min(1.0, (done + 1) / settings.warm_up)


class Log:
    """Prints a line every ten seconds in rank 0. Until then the figures stay on the device."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._clear()

    def add(self, step: int, rows: Rows, losses: Losses, norm: Tensor, rate: float, waited: float) -> None:
        """Add the figures of a step. waited: seconds until its batch was available."""
        self._figures.append(torch.stack((losses.first, losses.books.mean(), norm)))
        self._positions += rows.text.numel()
        self._waited += waited
        seconds = time.monotonic() - self._since
        if seconds >= _LOG_SECONDS:
            self._print_line(step, seconds, rate)
            self._clear()

    def print(self, text: str) -> None:
        """Print a line with the time."""
        print(f"[{self._timetable.elapsed:7.1f} s] {text}", flush=True)

    def _print_line(self, step: int, seconds: float, rate: float) -> None:
        if rank():
            return
        first, books, norm = torch.stack(self._figures).mean(0).tolist()
        speed = self._positions * world_size() / seconds / 1000
        self.print(
            f"step {step} c0 {first:.3f} books {books:.3f} norm {norm:.2f} rate {rate:.2e} | "
            f"{speed:.0f}k positions/s, {len(self._figures) / seconds:.1f} steps/s, "
            f"{100 * self._waited / seconds:.0f} % waiting for batches"
        )

    def _clear(self) -> None:
        self._figures: list[Tensor] = []
        self._positions, self._waited, self._since = 0, 0.0, time.monotonic()
