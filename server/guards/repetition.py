"""Finds a talker that is stuck: it repeats one code, or a cycle of codes."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

_LONGEST_CYCLE = 25
"""Frames of the longest cycle that is searched (2 s)."""


class CodeCycles:
    """The length of the current repetition in the codes of codebook 0, the one that carries the words.

    Attributes:
        repeated: for how many frames the latest codes have repeated the cycle before them, for the cycle of which most
            frames were repeated. 0 when the latest code repeats none.
        period: frames of that cycle.
    """

    def __init__(self) -> None:
        self.repeated = 0
        self.period = 0
        self._recent = np.full(_LONGEST_CYCLE, -1, np.int16)
        self._runs = np.zeros(_LONGEST_CYCLE, np.int64)
        """For each period, the longest first: the number of latest codes equal to the one that many frames before."""

    def add(self, codes: NDArray[np.int16]) -> None:
        """Add the codes of codebook 0 of consecutive frames, int16 [n]."""
        count = len(codes)
        if not count:
            return
        known = np.concatenate([self._recent, codes])
        equal = sliding_window_view(known, count)[:_LONGEST_CYCLE] == codes
        since_last_difference = np.argmin(equal[:, ::-1], axis=1)
        self._runs = np.where(equal.all(axis=1), self._runs + count, since_last_difference)
        self._recent = known[-_LONGEST_CYCLE:]
        longest = int(np.argmax(self._runs))
        self.period, self.repeated = _LONGEST_CYCLE - longest, int(self._runs[longest])
