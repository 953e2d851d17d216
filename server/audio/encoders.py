"""The formats audio leaves in. An encoder turns one utterance's samples into one valid file, piecewise."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.request import SAMPLE_RATE
from server.audio.samples import to_pcm16
from server.audio.wav import wav_header


class Encoder(Protocol):
    """One utterance on its way into a format: ``start``, ``encode`` and ``finish`` together give one file."""

    media_type: ClassVar[str]

    def __init__(self, samples: int | None) -> None:
        """``samples``: of the whole utterance where that is known already, else None."""

    def start(self) -> bytes:
        """What stands before the first sample."""

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """The bytes that these samples complete."""

    def finish(self) -> bytes:
        """What was held back, and what stands after the last sample."""


class PcmEncoder:
    """Bare 16-bit little-endian samples, mono, 24 kHz."""

    media_type: ClassVar[str] = "audio/pcm"

    def __init__(self, samples: int | None) -> None:
        self._samples = samples

    def start(self) -> bytes:
        """Nothing: there is no header."""
        return b""

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Two bytes a sample."""
        return to_pcm16(samples)

    def finish(self) -> bytes:
        """Nothing is held back."""
        return b""


class WavEncoder(PcmEncoder):
    """The same samples after a RIFF header."""

    media_type: ClassVar[str] = "audio/wav"

    def start(self) -> bytes:
        """The header, with sizes where the length is known."""
        return wav_header(SAMPLE_RATE, self._samples)


ENCODERS: dict[str, type[Encoder]] = {"pcm": PcmEncoder, "wav": WavEncoder}
"""By the wire's ``response_format``."""
