"""Estimates when the step that the GPU runs will end, so that the next one is launched shortly before."""

from __future__ import annotations

from collections import deque

_STEPS = 8
"""The shortest of this many steps is expected: a late launch would leave the GPU idle, an early one does not."""
_MARGIN = 0.0005
"""Seconds for a thread to wake up and to get the interpreter."""
_LATE = 0.0001
"""If waiting for a step took less, it had probably ended before."""


class StepClock:
    """Measures steps in seconds (``time.monotonic``)."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=_STEPS)
        self._launch_seconds = 0.0
        self._began = 0.0

    def started(self, now: float) -> None:
        """Record that an idle GPU begins a step."""
        self._began = now

    def ended(self, called: float, launched: float, ended: float) -> None:
        """Record that a step ended at ``ended``, and the next one began. That one was launched since ``called``."""
        late = ended - launched < _LATE
        self._durations.append(called - self._began - self._lead() if late else ended - self._began)
        self._launch_seconds = max(launched - called, 0.9 * self._launch_seconds)
        self._began = ended

    def due_in(self, now: float) -> float:
        """Return the seconds until the next step should be launched, at most 0 if it should be launched now."""
        if len(self._durations) < _STEPS:
            return 0.0
        return self._began + min(self._durations) - self._lead() - now

    def _lead(self) -> float:
        return self._launch_seconds + _MARGIN
