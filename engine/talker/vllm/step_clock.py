"""Estimates when the step that runs on the GPU will end, so that the next step can be launched shortly before."""

from __future__ import annotations

from collections import deque

_STEPS = 8
"""The estimate is the shortest of this many steps: a late launch leaves the GPU idle, an early one does not."""
_MARGIN = 0.0005
"""Seconds for a thread to wake up and to get the interpreter."""


class StepClock:
    """Times are in seconds (``time.monotonic``). After an idle GPU or a late launch there is no estimate at first."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=_STEPS)
        self._launch_seconds = 0.0
        self._began = 0.0

    def started(self, now: float) -> None:
        """Record that the GPU was idle and begins a step."""
        self._durations.clear()
        self._began = now

    def ended(self, called: float, launched: float, ended: float, *, late: bool, waited: bool = False) -> None:
        """Record that a step ended. The next step, which was launched from ``called`` to ``launched``, begins then.

        late: whether the step had ended before ``launched``, so that the GPU may have been idle. waited: whether the
        launch waited for a request; that it was late then says nothing about the estimate.
        """
        if not late:
            self._durations.append(ended - self._began)
        elif not waited:
            self._durations.clear()
        self._launch_seconds = max(launched - called, 0.9 * self._launch_seconds)
        self._began = ended

    def due_in(self, now: float) -> float:
        """Return the seconds until the next step should be launched, at most 0 if it should be launched now."""
        if len(self._durations) < _STEPS:
            return 0.0
        return self._began + min(self._durations) - self._launch_seconds - _MARGIN - now
