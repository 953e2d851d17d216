"""Recordings: from the bytes of a file to checked mono samples."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from server.errors import ApiError
from server.references.refusals import refusal, too_large
from server.settings import Limits

_FORMATS = "WAV, FLAC, MP3, Ogg Vorbis or Opus, AIFF"
_BLOCK_FRAMES = 65_536
_RATES = range(8_000, 192_001)
_MOST_CHANNELS = 8
_QUIETEST_PEAK = 1e-3
"""-60 dBFS: a recording that never gets louder holds no voice."""
_LOUDEST_PEAK = 8.0
"""Above full scale by this much, float samples are not audio in [-1, 1]."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A recording: float32 mono samples and their rate in Hz."""

    samples: NDArray[np.float32]
    rate: int


class _Bytes(io.BytesIO):
    """A file in memory. Where a corrupt header leads nowhere it stays: what libsndfile's calls raise goes to stderr."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to ``offset`` where there is such a place; the place where it is now."""
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def decode_reference(data: bytes, limits: Limits) -> Reference:
    """Decode any format libsndfile reads, mixed down to mono. Blocks: call it off the event loop.

    Size, rate, channels and length are checked before anything is decoded, and the length again while
    decoding, for headers may lie. Raises ApiError: not audio, out of bounds, not finite, silent.
    """
    if len(data) > limits.reference_max_bytes:
        raise too_large(limits.reference_max_bytes)
    try:
        with sf.SoundFile(_Bytes(data)) as file, np.errstate(all="ignore"):
            _check_header(file, limits)
            reference = Reference(_read_mono(file, limits), file.samplerate)
    except (sf.SoundFileError, RuntimeError, ValueError, TypeError):
        raise refusal(f"not an audio file this server can read ({_FORMATS})") from None
    _check_samples(reference, limits)
    return reference


def _check_header(file: sf.SoundFile, limits: Limits) -> None:
    if file.samplerate not in _RATES:
        raise refusal(f"{file.samplerate} Hz; 8000 to 192000 are accepted")
    if not 1 <= file.channels <= _MOST_CHANNELS:
        raise refusal(f"{file.channels} channels; at most {_MOST_CHANNELS} are accepted")
    if file.frames > limits.reference_max_seconds * file.samplerate:
        raise _too_long(limits)


def _read_mono(file: sf.SoundFile, limits: Limits) -> NDArray[np.float32]:
    most = int(limits.reference_max_seconds * file.samplerate)
    blocks: list[NDArray[np.float32]] = []
    read = 0
    while len(block := file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
        read += len(block)
        if read > most:
            raise _too_long(limits)
        blocks.append(block.mean(axis=1, dtype=np.float32))
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32)


def _check_samples(reference: Reference, limits: Limits) -> None:
    samples = reference.samples
    if len(samples) < limits.reference_min_seconds * reference.rate or not len(samples):
        raise refusal(f"shorter than {limits.reference_min_seconds:g} s", "reference_too_short")
    peak = float(np.abs(samples).max())
    if not peak <= _LOUDEST_PEAK:
        raise refusal("its samples are not finite numbers within full scale")
    if peak < _QUIETEST_PEAK:
        raise refusal("the recording is silent", "reference_silent")


def _too_long(limits: Limits) -> ApiError:
    return refusal(f"longer than {limits.reference_max_seconds:g} s", "reference_too_long")
