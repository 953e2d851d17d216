"""Joints between pieces of speech: the silence between the last sound of one and the first sound of the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.protocol.request import SAMPLE_RATE
from server.audio.onset import BLOCK, Samples, sound

_ONSET = 3 * BLOCK
"""Samples kept before the first sound of a piece (30 ms), because soft consonants begin below -50 dBFS."""
_SILENCE = SAMPLE_RATE
"""Maximum number of samples of silence in one array."""
_NONE = np.zeros(0, np.int16)


class Joiner:
    """Joins pieces so that each pause between them has a given length, measured from sound to sound.

    Silence at the end of a piece is passed on up to the length of the pause and held back beyond it: the rest is
    dropped when the piece ends there, and passed on when it goes on. Silence at the start of the next piece is dropped.
    """

    def __init__(self) -> None:
        self._silence = 0
        """Samples of silence at the end of what was returned."""
        self._held = _NONE
        self._onset: Samples | None = None
        """The last samples of the silence at the start of a piece; None once it has sound, or if it stays as it is."""

    def pause(self, seconds: float, *, last: bool = False) -> Iterator[Samples]:
        """Return the silence that makes the pause after a piece ``seconds`` long, and expect the next piece.

        last: no piece follows, so the pause has no share of silence before a first sound.
        """
        self._held = _NONE
        self._onset = _NONE
        missing = _count(seconds) - self._silence - (0 if last else _ONSET)
        self._silence += max(0, missing)
        for start in range(0, missing, _SILENCE):
            yield np.zeros(min(_SILENCE, missing - start), np.int16)

    def rest(self) -> Samples:
        """Return the silence that was held back, because no piece follows after all."""
        held, self._held = self._held, _NONE
        return held

    def join(self, samples: Samples, pause: float | None) -> Samples:
        """Return what can be passed on once ``samples`` of the current piece arrive; possibly nothing.

        pause: seconds of the pause after the piece; None if it is the last one, whose end stays as it is.
        """
        start, end = sound(samples)
        if self._onset is not None:
            before = np.concatenate([self._onset, samples[:start]])[-_ONSET:]
            if start == len(samples):
                self._onset = before
                return _NONE
            self._onset = None
            lead_in = np.zeros(_ONSET, np.int16)
            lead_in[_ONSET - len(before) :] = before
            samples, end = np.concatenate([lead_in, samples[start:]]), _ONSET + end - start
        if end:
            self._silence = 0
        end += len(self._held) if end else 0
        samples = np.concatenate([self._held, samples])
        silence = len(samples) - end
        passed = silence if pause is None else min(silence, max(0, _count(pause) - _ONSET - self._silence))
        self._silence += passed
        self._held = samples[end + passed :]
        return samples[: end + passed]


def _count(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)
