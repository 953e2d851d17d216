"""From the engine's samples to a file: stretched, resampled, encoded. In between they are parts of 1."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.request import SAMPLE_RATE
from engine.samples import to_float32, to_int16
from server.audio.encoders import Format
from server.audio.resampling import Resampler
from server.audio.stretch import Stretch


class _Stage(Protocol):
    """Samples in, samples out, some of them later."""

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def flush(self) -> NDArray[np.float32]: ...


class Chain:
    """One file in the making. A stage that would change nothing is not there.

    rate: of the file, in Hz. light: nothing in it is worth a thread.
    """

    def __init__(self, kind: Format, *, speed: float = 1.0, rate: int = SAMPLE_RATE, whole: bool = False) -> None:
        self.rate = kind.rate_for(rate)
        self._stages: list[_Stage] = []
        if speed != 1.0:
            self._stages.append(Stretch(speed, SAMPLE_RATE))
        if self.rate != SAMPLE_RATE:
            self._stages.append(Resampler(SAMPLE_RATE, self.rate))
        self._encoder = kind.encoder(self.rate, whole)
        self.light = kind.light and not self._stages

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """The bytes that these samples complete, which may be none."""
        if not self._stages:
            return self._encoder.encode(samples)
        changed = to_float32(samples)
        for stage in self._stages:
            changed = stage.process(changed)
        return self._encoder.encode(to_int16(changed))

    def finish(self) -> bytes:
        """What was held back, and what stands after the last sample."""
        if not self._stages:
            return self._encoder.finish()
        rest = np.zeros(0, np.float32)
        for stage in self._stages:
            rest = np.concatenate([stage.process(rest), stage.flush()])
        return self._encoder.encode(to_int16(rest)) + self._encoder.finish()

    def close(self) -> None:
        """Free everything, finished or not."""
        self._stages.clear()
        self._encoder.close()
