"""A listener who plays from the first byte on: whether audio came in time for one."""

from __future__ import annotations

import time
from collections.abc import Callable


class Playback:
    """Counts how often, and for how long, such a listener would have run dry."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.underruns = 0
        self.dry_seconds = 0.0
        self._clock = clock
        self._runs_dry: float | None = None

    def gave(self, seconds: float) -> None:
        """So many seconds of audio go out now."""
        now = self._clock()
        if self._runs_dry is None:
            self._runs_dry = now
        elif now > self._runs_dry:
            self.underruns += 1
            self.dry_seconds += now - self._runs_dry
            self._runs_dry = now
        self._runs_dry += seconds

    def held_up(self, seconds: float) -> None:
        """The listener took so long to take what was sent: its own time, with audio in hand, so its clock stood."""
        if self._runs_dry is not None:
            self._runs_dry += seconds
