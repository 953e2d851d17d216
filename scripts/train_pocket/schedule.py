"""Learning rates over a run that is bounded in time, not in steps."""

from __future__ import annotations

import math
import time

from torch.optim import Optimizer

from scripts.train_pocket import machines

_WARM_UP_STEPS = 100
_LOOKS_EVERY = 10
"""Steps between looks at the clock: all processes must see the same time, which costs an exchange."""


class TimedSchedule:
    """Warms up over a few steps, then falls as a cosine to ``last`` of the first rate when the minutes are over.

    progress: 0 at the start, 1 when time is up; the same in all processes.
    """

    def __init__(self, minutes: float, last: float = 0.02) -> None:
        self._begin, self._seconds, self._last = time.monotonic(), minutes * 60, last
        self.steps, self.progress = 0, 0.0

    def step(self, optimizers: list[Optimizer]) -> float:
        """Set the rates of the next step; returns the factor. A group's own rate is its ``initial_lr``."""
        if self.steps % _LOOKS_EVERY == 0:
            passed = (time.monotonic() - self._begin) / self._seconds
            self.progress = min(1.0, machines.first_ones(passed))
        self.steps += 1
        cosine = 0.5 * (1 + math.cos(math.pi * self.progress))
        factor = min(1.0, self.steps / _WARM_UP_STEPS) * (self._last + (1 - self._last) * cosine)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
        return factor
