"""A learning rate schedule for a run that is limited by time instead of steps."""

from __future__ import annotations

import math
import time

from torch.optim import Optimizer

from scripts.train_pocket import distributed

_WARM_UP_STEPS = 100
_UPDATE_INTERVAL = 10
"""Steps between updates of the progress. All processes must use the same time, which needs a broadcast."""


class TimedSchedule:
    """A linear warm-up over a few steps, then a cosine decay to ``last`` times the initial rate.

    progress: 0 at the start, 1 when the time is over; the same in all processes.
    """

    def __init__(self, minutes: float, last: float = 0.02) -> None:
        self._begin, self._seconds, self._last = time.monotonic(), minutes * 60, last
        self.steps, self.progress = 0, 0.0

    def step(self, optimizers: list[Optimizer]) -> float:
        """Set the learning rates of the next step and return their factor. ``initial_lr`` is a group's full rate."""
        if self.steps % _UPDATE_INTERVAL == 0:
            passed = (time.monotonic() - self._begin) / self._seconds
            self.progress = min(1.0, distributed.broadcast_value(passed))
        self.steps += 1
        cosine = 0.5 * (1 + math.cos(math.pi * self.progress))
        factor = min(1.0, self.steps / _WARM_UP_STEPS) * (self._last + (1 - self._last) * cosine)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
        return factor
