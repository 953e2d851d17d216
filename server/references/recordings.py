"""Recordings: from the bytes of a file to checked mono samples."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from engine.request import SAMPLE_RATE
from engine.resampling import resample
from server.references.bounds import RecordingLimits, Reference, check_claims, joined
from server.references.ffmpeg import decode_by_ffmpeg, demuxer_of
from server.references.refusals import refusal, too_large

_FORMATS = "WAV, FLAC, MP3, Ogg Vorbis or Opus, AIFF, MP4 or M4A, WebM, AAC, AMR"
_BLOCK_FRAMES = 65_536


class _Bytes(io.BytesIO):
    """A file in memory. Where a corrupt header leads nowhere it stays: what libsndfile's calls raise goes to stderr."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to ``offset`` where there is such a place; the place where it is now."""
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def decode_reference(data: bytes, limits: RecordingLimits) -> Reference:
    """Decode a recording, mixed down to mono. Blocks: call it off the event loop.

    Its bounds are checked by its header, and again while it is decoded, for headers may lie. Raises ApiError: not
    audio, out of bounds, not finite, silent; MemoryError, as a damaged header can claim any number of samples.
    """
    if len(data) > limits.reference_max_bytes:
        raise too_large(limits.reference_max_bytes)
    demuxer = demuxer_of(data)
    return _decode_by_libsndfile(data, limits) if demuxer is None else decode_by_ffmpeg(data, demuxer, limits)


def decode_samples(data: bytes, limits: RecordingLimits) -> NDArray[np.float32]:
    """Decode a recording to mono samples at 24 kHz, the rate of the engine's encoders. Blocks. Raises ApiError."""
    reference = decode_reference(data, limits)
    return resample(reference.samples, reference.rate, SAMPLE_RATE)


def _decode_by_libsndfile(data: bytes, limits: RecordingLimits) -> Reference:
    try:
        with sf.SoundFile(_Bytes(data)) as file:
            check_claims(file.samplerate, file.channels, limits, file.frames / max(1, file.samplerate))
            return joined(_mono_blocks(file), file.samplerate, limits)
    except (sf.SoundFileError, RuntimeError, ValueError, TypeError):
        raise refusal(f"not an audio file this server can read ({_FORMATS})") from None


def _mono_blocks(file: sf.SoundFile) -> Iterator[NDArray[np.float32]]:
    while len(block := file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
        yield block.mean(axis=1, dtype=np.float32)
