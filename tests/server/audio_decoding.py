"""Decode files of each format with decoders independent of the encoders under test."""

from __future__ import annotations

import io
import shutil
import subprocess

import av
import numpy as np
import soundfile as sf
from numpy.typing import NDArray

CONTENT_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""Each ``response_format`` and its Content-Type."""


class _Unseekable(sf.SoundFile):
    """A file that reports it cannot seek: libsndfile reads a FLAC of unknown length, but not after a seek."""

    def seekable(self) -> bool:
        return False


def decode_audio(data: bytes, kind: str, rate: int = 24_000) -> tuple[NDArray[np.float32], int]:
    """Return the samples of a file and their sample rate. ``rate`` is used for ``pcm`` only, which has no header."""
    if kind == "pcm":
        return np.frombuffer(data, "<i2").astype(np.float32) / 32768, rate
    if kind == "aac":
        return _by_ffmpeg(data) if shutil.which("ffmpeg") else _by_pyav(data)
    return _by_libsndfile(data)


def max_padding(kind: str, rate: int) -> int:
    """The most samples a decoder may add to a streamed file, because its header does not give the exact length."""
    if kind == "mp3":
        return 1105 + 2 * (576 if rate < 32_000 else 1152)
    return 2048 if kind == "aac" else 0


def _by_libsndfile(data: bytes) -> tuple[NDArray[np.float32], int]:
    with _Unseekable(io.BytesIO(data)) as file:
        assert file.channels == 1
        blocks = [np.zeros(0, np.float32)]
        while len(block := file.read(65_536, dtype="float32")):
            blocks.append(block)
        return np.concatenate(blocks), file.samplerate


def _by_ffmpeg(data: bytes) -> tuple[NDArray[np.float32], int]:
    command = ["ffmpeg", "-v", "error", "-xerror", "-f", "aac", "-i", "-", "-f", "wav", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=True, timeout=60)
    assert not done.stderr
    return _by_libsndfile(done.stdout)


def _by_pyav(data: bytes) -> tuple[NDArray[np.float32], int]:
    with av.open(io.BytesIO(data)) as file:
        frames = list(file.decode(audio=0))
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].sample_rate
