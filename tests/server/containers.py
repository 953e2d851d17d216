"""Recordings in the containers and codecs of browsers and phones."""

from __future__ import annotations

import io
from itertools import chain, repeat
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
KINDS: dict[str, tuple[str, str, int, dict[str, str]]] = {
    "WebM of Opus, by a browser as it records": ("webm", "libopus", 48_000, {"live": "1"}),
    "WebM of Opus": ("webm", "libopus", 48_000, {}),
    "MP4 of AAC, by a browser as it records": ("mp4", "aac", 48_000, FRAGMENTED),
    "MP4 of AAC": ("mp4", "aac", 44_100, {}),
    "MP4 of Opus": ("mp4", "libopus", 48_000, {}),
    "M4A of AAC": ("ipod", "aac", 44_100, {}),
    "M4A of ALAC": ("ipod", "alac", 44_100, {}),
    "3GP of AAC": ("3gp", "aac", 16_000, {}),
    "QuickTime of samples": ("mov", "pcm_s16le", 48_000, {}),
    "Matroska of FLAC": ("matroska", "flac", 48_000, {}),
    "bare AAC": ("adts", "aac", 24_000, {}),
    "AMR": ("amr", "libopencore_amrnb", 8_000, {}),
}
"""Container format, codec, sample rate and container options of each kind."""


def encode_recording(samples: NDArray[Any], container: str, codec: str, rate: int, options: dict[str, str]) -> bytes:
    """Encode float samples, [T] or [channels, T], into a file."""
    frame = av.AudioFrame.from_ndarray(
        np.atleast_2d(samples).astype(np.float32), "fltp", "mono" if samples.ndim == 1 else "stereo"
    )
    frame.sample_rate, frame.pts = rate, 0
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options) as output:
        stream = output.add_stream(codec, rate=rate, layout=frame.layout)
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            output.mux(packet)
    return file.getvalue()


def repeat_packets(data: bytes, container: str, options: dict[str, str], times: int, size: int | None = None) -> bytes:
    """Remux ``data`` with its packets repeated ``times`` times, each truncated to ``size`` bytes."""
    file = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(file, "w", format=container, options=options) as output:
        stream = source.streams.audio[0]
        copy = output.add_stream_from_template(stream)
        packets = [packet for packet in source.demux(stream) if packet.size]
        for number, packet in enumerate(chain.from_iterable(repeat(packets, times))):
            part = av.Packet(bytes(packet)[:size])
            part.stream, part.time_base = copy, packet.time_base
            part.pts = part.dts = number * packets[0].duration
            part.is_keyframe = True
            output.mux(part)
    return file.getvalue()


def encode_video(samples: NDArray[np.float32] | None, rate: int = 48_000) -> bytes:
    """A camera recording: video frames, plus an audio track if ``samples`` is given."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        pictures = output.add_stream("mpeg4", rate=25, width=64, height=64, pix_fmt="yuv420p")
        sound = None if samples is None else output.add_stream("libopus", rate=rate, layout="mono")
        for number in range(50):
            picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number, np.uint8), "rgb24")
            output.mux(pictures.encode(picture))
        output.mux(pictures.encode(None))
        if sound is not None and samples is not None:
            frame = av.AudioFrame.from_ndarray(samples[None], "fltp", "mono")
            frame.sample_rate, frame.pts = rate, 0
            output.mux([*sound.encode(frame), *sound.encode(None)])
    return file.getvalue()
