"""Recordings of voices to clone: from what the client sent to checked mono samples."""

from __future__ import annotations

import base64
import binascii
import io
from dataclasses import dataclass

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from server.errors import ApiError
from server.settings import Limits

_PARAM = "ref_audio"
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


def read_data_url(url: str, limits: Limits) -> bytes:
    """The bytes of a base64 ``data:`` URL, which may have line breaks.

    Raises ApiError: any other address, bad base64, too large.
    """
    if url[:5].lower() != "data:":
        message = "Not supported 'ref_audio': send the recording itself as a 'data:audio/...;base64,' URL."
        raise ApiError(message, param=_PARAM, code="not_supported")
    header, comma, text = url.partition(",")
    if not comma or not header.lower().endswith(";base64"):
        raise _refusal("a data URL must look like 'data:audio/wav;base64,...'")
    text = text.replace("\r", "").replace("\n", "")
    if len(text) // 4 * 3 > limits.reference_max_bytes + 2:
        raise _refusal(f"more than {limits.reference_max_bytes} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _refusal("the data is not base64") from None


def decode_reference(data: bytes, limits: Limits) -> Reference:
    """Decode any format libsndfile reads, mixed down to mono. Blocks: call it off the event loop.

    Size, rate, channels and length are checked before anything is decoded, and the length again while
    decoding, for headers may lie. Raises ApiError: not audio, out of bounds, not finite, silent.
    """
    if len(data) > limits.reference_max_bytes:
        raise _refusal(f"more than {limits.reference_max_bytes} bytes")
    try:
        with sf.SoundFile(io.BytesIO(data)) as file, np.errstate(all="ignore"):
            _check_header(file, limits)
            reference = Reference(_read_mono(file, limits), file.samplerate)
    except (sf.SoundFileError, RuntimeError, ValueError, TypeError):
        raise _refusal(f"not an audio file this server can read ({_FORMATS})") from None
    _check_samples(reference, limits)
    return reference


def _check_header(file: sf.SoundFile, limits: Limits) -> None:
    if file.samplerate not in _RATES:
        raise _refusal(f"{file.samplerate} Hz; 8000 to 192000 are accepted")
    if not 1 <= file.channels <= _MOST_CHANNELS:
        raise _refusal(f"{file.channels} channels; at most {_MOST_CHANNELS} are accepted")
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
        raise _refusal(f"shorter than {limits.reference_min_seconds:g} s", "reference_too_short")
    peak = float(np.abs(samples).max())
    if not peak <= _LOUDEST_PEAK:
        raise _refusal("its samples are not finite numbers within full scale")
    if peak < _QUIETEST_PEAK:
        raise _refusal("the recording is silent", "reference_silent")


def _too_long(limits: Limits) -> ApiError:
    return _refusal(f"longer than {limits.reference_max_seconds:g} s", "reference_too_long")


def _refusal(reason: str, code: str = "invalid_value") -> ApiError:
    return ApiError(f"Invalid 'ref_audio': {reason}.", param=_PARAM, code=code)
