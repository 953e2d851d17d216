"""A recording in every format that libsndfile and FFmpeg can write."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from tests.server.recordings import RATE, tone

_LIBSNDFILE_FORMATS = {
    "WAV": ("PCM_16", "PCM_24", "FLOAT", "DOUBLE", "ULAW", "IMA_ADPCM", "MS_ADPCM", "GSM610"),
    "WAVEX": ("PCM_16",),
    "RF64": ("PCM_16",),
    "W64": ("PCM_16",),
    "FLAC": ("PCM_16", "PCM_24"),
    "MP3": ("MPEG_LAYER_III",),
    "OGG": ("VORBIS", "OPUS"),
    "AIFF": ("PCM_16", "FLOAT"),
    "AU": ("PCM_16", "ULAW"),
    "CAF": ("PCM_16", "ALAC_16"),
    "VOC": ("PCM_16",),
    "NIST": ("PCM_16",),
    "SVX": ("PCM_16",),
    "IRCAM": ("PCM_16",),
    "PAF": ("PCM_16",),
}
_FFMPEG_FORMATS = (("ipod", "aac"), ("mp4", "aac"), ("adts", "aac"), ("webm", "libopus"), ("amr", "amr_nb"))


def recordings(seconds: float = 1.5) -> dict[str, bytes]:
    """Return files of ``seconds`` seconds, by format."""
    samples = tone(seconds)
    files = {
        f"{kind}/{subtype}": _encode_with_libsndfile(samples, kind, subtype)
        for kind, subtypes in _LIBSNDFILE_FORMATS.items()
        for subtype in subtypes
    }
    return files | {f"{kind}/{codec}": _encode_with_ffmpeg(samples, kind, codec) for kind, codec in _FFMPEG_FORMATS}


def _encode_with_libsndfile(samples: NDArray[np.float32], kind: str, subtype: str) -> bytes:
    file = io.BytesIO()
    sf.write(file, samples, RATE, format=kind, subtype=subtype)
    return file.getvalue()


def _encode_with_ffmpeg(samples: NDArray[np.float32], kind: str, codec: str) -> bytes:
    rate = 8_000 if codec == "amr_nb" else RATE
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray((samples[:: RATE // rate] * 32767).astype(np.int16)[None], "s16", "mono")
        frame.rate, frame.time_base = rate, Fraction(1, rate)
        resampler = av.AudioResampler(stream.format, "mono", rate, frame_size=stream.codec_context.frame_size or 1024)
        for part in [*resampler.resample(frame), *resampler.resample(None), None]:
            container.mux(stream.encode(part))
    return file.getvalue()
