"""The formats without compression: bare samples, and the same after a RIFF header."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from server.audio.wav import wav_header


class PcmEncoder:
    """Bare 16-bit little-endian samples, mono."""

    def __init__(self, rate: int, whole: bool) -> None:
        pass

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Two bytes a sample."""
        return samples.tobytes()

    def finish(self) -> bytes:
        """Nothing is held back."""
        return b""

    def close(self) -> None:
        """Nothing is held."""


class WavEncoder:
    """RIFF. Streamed, the header leaves first and its sizes are open; whole, it waits for the length."""

    def __init__(self, rate: int, whole: bool) -> None:
        self._rate, self._whole = rate, whole
        self._pieces = [] if whole else [wav_header(rate, None)]

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Two bytes a sample, and the header before the first of them; nothing yet of a whole file."""
        self._pieces.append(samples.tobytes())
        return b"" if self._whole else self._taken()

    def finish(self) -> bytes:
        """The whole file, or a header that no sample has followed."""
        if self._whole:
            self._pieces.insert(0, wav_header(self._rate, sum(map(len, self._pieces)) // 2))
        return self._taken()

    def close(self) -> None:
        """Drop what is held."""
        self._pieces = []

    def _taken(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken
