"""Estimates when the audio of a piece is almost complete, so that the next one can be submitted in time."""

from __future__ import annotations

_LEAD_FRAMES = 12
"""The next piece is submitted this many frames (about one second) before the estimated end of the current one."""
_FRAMES_PER_LETTER = 0.8
"""Estimated frames per letter until the first piece has ended: 15 letters per second."""


class Pace:
    """The frames per letter of one request, learned from the pieces that have ended."""

    def __init__(self) -> None:
        self._frames = self._weight = 0

    def add(self, frames: int, weight: int) -> None:
        """Count a piece of ``weight`` letters that has ended with ``frames`` frames."""
        self._frames += frames
        self._weight += weight

    def almost_complete(self, frames: int, weight: int) -> bool:
        """Return whether a piece of ``weight`` letters with ``frames`` frames so far ends in about a second."""
        per_letter = self._frames / self._weight if self._weight else _FRAMES_PER_LETTER
        return frames + _LEAD_FRAMES >= per_letter * weight
