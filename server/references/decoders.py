"""Decodes a recording to validated mono samples with libsndfile or FFmpeg. Runs in the decoder workers."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import av
import numpy as np
import soundfile as sf
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from engine.cloning.resampling import resample
from engine.protocol.request import SAMPLE_RATE
from server.references.validation import (
    Recording,
    RecordingLimits,
    check_header,
    invalid_recording,
    join_blocks,
    recording_too_large,
)

_DECODERS = frozenset(
    "aac alac amrnb amrwb flac mp3 mp3float opus libopus vorbis pcm_f32be pcm_f32le pcm_s16be pcm_s16le "
    "pcm_s24be pcm_s24le pcm_s32be pcm_s32le pcm_u8".split()
)
_MAX_FRAME_SAMPLES = 2**17
"""Maximum samples per frame. FLAC has the longest frames (65,535). Forged headers claim more, and decoders would
allocate memory for them."""
_MAX_PACKETS_PER_SECOND = 1000
"""The shortest packets, those of Opus, last 2.5 ms (400 per second). Video packets may be interleaved with them."""
_OPTIONS = {"codec_whitelist": ",".join(sorted(_DECODERS)), "protocol_whitelist": "none"}


def demuxer_of(data: bytes) -> str | None:
    """Return the FFmpeg demuxer for a file, by its first bytes; None if libsndfile reads it."""
    if data[4:8] in (b"ftyp", b"moov"):
        return "mov"
    if data.startswith(b"\x1aE\xdf\xa3"):
        return "matroska"
    if data.startswith(b"#!AMR"):
        return "amr"
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0:
        return "aac"
    return None


def decode_by_ffmpeg(data: bytes, demuxer: str, limits: RecordingLimits) -> Recording:
    """Decode the first audio stream of a file, mixed down to mono. Blocks: call it off the event loop.

    The duration in the header is ignored, because FFmpeg estimates it when it is missing. Decoding stops when the
    recording is too long. Raises ApiError when there is no audio, or when it is damaged, exceeds a limit, or is not
    finite or silent. Raises MemoryError.
    """
    try:
        with av.open(io.BytesIO(data), mode="r", format=demuxer, container_options=_OPTIONS) as file:
            return _decoded(file, limits)
    except MemoryError:
        raise
    except (av.error.FFmpegError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        raise invalid_recording("the audio is damaged, or its format is not supported") from None


def _decoded(container: InputContainer, limits: RecordingLimits) -> Recording:
    stream = next((each for each in container.streams.audio if each.codec_context is not None), None)
    if stream is None or stream.codec_context.name not in _DECODERS:
        raise invalid_recording("the file has no audio stream of a supported codec")
    stream.codec_context.thread_count = 1
    stream.codec_context.options = {"max_samples": str(_MAX_FRAME_SAMPLES)}
    frames = _frames(container, stream, limits)
    first = next(frames, None)
    rate = stream.rate if first is None else first.sample_rate
    check_header(rate, stream.channels, limits)
    return join_blocks(_frame_blocks(chain([first] if first else [], frames), rate), rate, limits)


def _frames(container: InputContainer, stream: AudioStream, limits: RecordingLimits) -> Iterator[AudioFrame]:
    """Yield the decoded frames of ``stream``. Skips damaged packets, as audio players do."""
    max_packets = int(limits.reference_max_seconds * _MAX_PACKETS_PER_SECOND)
    for number, packet in enumerate(container.demux()):
        if number > max_packets:
            raise invalid_recording(f"the file has more than {max_packets} packets")
        if packet.stream_index == stream.index:
            try:
                yield from stream.decode(packet)
            except av.error.InvalidDataError:
                continue


def _frame_blocks(frames: Iterable[AudioFrame], rate: int) -> Iterator[NDArray[np.float32]]:
    for frame in frames:
        if frame.sample_rate != rate:
            raise invalid_recording("the sample rate changes within the file")
        yield _mono(frame)


def _mono(frame: AudioFrame) -> NDArray[np.float32]:
    samples: NDArray[Any] = frame.to_ndarray()
    if not frame.format.is_planar:
        samples = samples.reshape(-1, frame.layout.nb_channels).T
    if samples.dtype.kind == "u":
        samples = samples.astype(np.float32) / 128 - 1
    elif samples.dtype.kind == "i":
        samples = samples.astype(np.float32) / -float(np.iinfo(samples.dtype).min)
    mono: NDArray[np.float32] = samples.mean(axis=0, dtype=np.float32)
    return mono


_FORMATS = "WAV, FLAC, MP3, Ogg Vorbis or Opus, AIFF, MP4 or M4A, WebM, AAC, AMR"
_BLOCK_FRAMES = 65_536


class _Bytes(io.BytesIO):
    """A file in memory that ignores invalid seeks, which corrupt headers cause.

    libsndfile calls it from C code, where an exception would be printed to stderr instead of being raised.
    """

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Seek to ``offset``, or stay if it is invalid. Return the current position."""
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def decode_reference(data: bytes, limits: RecordingLimits) -> Recording:
    """Decode a recording, mixed down to mono. Blocks: call it off the event loop.

    The limits are checked against the header, and again during decoding, because a header may be false. Raises
    ApiError when the file is not audio, exceeds a limit, or is not finite or silent. Raises MemoryError, because a
    damaged header can claim any number of samples.
    """
    if len(data) > limits.reference_max_bytes:
        raise recording_too_large(limits.reference_max_bytes)
    demuxer = demuxer_of(data)
    return _decode_by_libsndfile(data, limits) if demuxer is None else decode_by_ffmpeg(data, demuxer, limits)


def decode_samples(data: bytes, limits: RecordingLimits) -> NDArray[np.float32]:
    """Decode a recording to mono samples at 24 kHz, the rate of the engine's encoders. Blocks. Raises ApiError."""
    reference = decode_reference(data, limits)
    return resample(reference.samples, reference.rate, SAMPLE_RATE)


def _decode_by_libsndfile(data: bytes, limits: RecordingLimits) -> Recording:
    try:
        with sf.SoundFile(_Bytes(data)) as file:
            check_header(file.samplerate, file.channels, limits, file.frames / max(1, file.samplerate))
            return join_blocks(_sound_file_blocks(file), file.samplerate, limits)
    except (sf.SoundFileError, RuntimeError, ValueError, TypeError):
        raise invalid_recording(f"the file is damaged, or not in a supported format ({_FORMATS})") from None


def _sound_file_blocks(file: sf.SoundFile) -> Iterator[NDArray[np.float32]]:
    while len(block := file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
        yield block.mean(axis=1, dtype=np.float32)
