"""The formats audio leaves in. An encoder turns one utterance's samples into one valid file, piecewise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.audio.coded import aac, flac, mp3, opus
from server.audio.plain import PcmEncoder, WavEncoder


class Encoder(Protocol):
    """One utterance on its way into a format: what ``encode`` and ``finish`` give together is one file."""

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """The bytes that these samples complete, which may be none."""

    def finish(self) -> bytes:
        """What was held back, and what stands after the last sample."""

    def close(self) -> None:
        """Free everything, finished or not."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its Content-Type, and how an encoder is made.

    encoder: takes the samples' rate in Hz, and whether the file leaves whole, at its end: then its header
        can tell its length.
    rates: those the codec knows, ascending; None where any will do.
    light: it takes no more than a copy of the samples.
    """

    media_type: str
    encoder: Callable[[int, bool], Encoder]
    rates: tuple[int, ...] | None = None
    light: bool = False

    def rate_for(self, asked: int) -> int:
        """The rate of a file for which ``asked`` Hz (at most 48000) are wanted: the next one the codec knows."""
        return asked if self.rates is None else min(rate for rate in self.rates if rate >= asked)


_MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)

FORMATS: dict[str, Format] = {
    "mp3": Format("audio/mpeg", mp3, _MPEG_RATES),
    "opus": Format("audio/ogg", opus, _OPUS_RATES),
    "aac": Format("audio/aac", aac, _MPEG_RATES),
    "flac": Format("audio/flac", flac),
    "wav": Format("audio/wav", WavEncoder, light=True),
    "pcm": Format("audio/pcm", PcmEncoder, light=True),
}
"""By the wire's ``response_format``."""
