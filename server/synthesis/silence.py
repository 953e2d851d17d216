"""The audio of a text that has no sound, such as an emoji that a voice agent sends as a sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, AudioChunk, Completion, FinishReason

_MIN_SECONDS = 0.2
"""Players and audio decoders may fail on a file without samples."""


class SilentStream:
    """An AudioStream of silence, which needs no engine.

    seconds: its duration; at least 0.2 s.
    """

    completion = Completion(FinishReason.STOP, 0, 0)

    def __init__(self, seconds: float = 0.0) -> None:
        self._samples = np.zeros(round(max(_MIN_SECONDS, seconds) * SAMPLE_RATE), np.int16)

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        """Yield all of it."""
        yield AudioChunk(self._samples, np.zeros((0, CODEBOOKS), np.int16))

    def cancel(self) -> None:
        """Do nothing: there is no work to abort."""
