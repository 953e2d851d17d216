"""The formats FFmpeg's libraries write, through PyAV: packets leave the muxer as they are made."""

from __future__ import annotations

import io
from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from numpy.typing import NDArray

_MUXER = {"flush_packets": "1", "fflags": "+bitexact"}
"""No packet waits in a buffer, and no random number or version is in a file: the same samples, the same bytes."""
_FLAC_FRAMES_A_SECOND = 25


def mp3(rate: int, whole: bool) -> CodedEncoder:
    """64 kbit/s, every frame by itself. Only a whole file has the frame that tells its exact length."""
    muxer = {"write_xing": str(int(whole)), "id3v2_version": "0"}
    return CodedEncoder("mp3", "libmp3lame", rate, whole, muxer, {"b": "64k", "reservoir": "0"})


def opus(rate: int, whole: bool) -> CodedEncoder:
    """32 kbit/s in Ogg, a page for every 20 ms; its pages tell the exact length."""
    return CodedEncoder("ogg", "libopus", rate, whole, {"page_duration": "20000"}, {"b": "32k"})


def aac(rate: int, whole: bool) -> CodedEncoder:
    """64 kbit/s of AAC-LC in ADTS, which has no place for a length."""
    return CodedEncoder("adts", "aac", rate, whole, {}, {"b": "64k"})


def flac(rate: int, whole: bool) -> CodedEncoder:
    """Frames of 40 ms. Only a whole file's header has its length and checksum."""
    frame = {"frame_size": str(rate // _FLAC_FRAMES_A_SECOND)}
    return CodedEncoder("flac", "flac", rate, whole, {"metadata_header_padding": "0"}, frame)


class CodedEncoder:
    """One file of a muxer and an encoder of FFmpeg's, mono. A whole file is given out at its end.

    Its calls may come from different threads, one at a time.
    """

    def __init__(
        self,
        container: str,
        codec: str,
        rate: int,
        whole: bool,
        container_options: Mapping[str, str],
        codec_options: Mapping[str, str],
    ) -> None:
        self._rate, self._samples = rate, 0
        self._sink: _Sink = _Seekable() if whole else _Passing()
        self._container = av.open(self._sink, "w", format=container, options={**_MUXER, **container_options})
        stream = self._container.add_stream(codec, rate=rate, options=dict(codec_options), layout="mono")
        assert isinstance(stream, AudioStream)
        stream.codec_context.thread_count = 1
        self._stream = stream
        self._container.start_encoding()

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """The bytes that these samples complete."""
        if len(samples):
            self._mux(self._frame(samples))
        return self._sink.taken()

    def finish(self) -> bytes:
        """What was held back, and what stands after the last sample."""
        self._mux(None)
        self._container.close()
        return self._sink.rest()

    def close(self) -> None:
        """Free what FFmpeg holds; a second time does nothing."""
        self._container.close()

    def _frame(self, samples: NDArray[np.int16]) -> AudioFrame:
        frame = AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.time_base = Fraction(1, self._rate)
        frame.pts = self._samples
        self._samples += len(samples)
        return frame

    def _mux(self, frame: AudioFrame | None) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


class _Sink(Protocol):
    """What a muxer writes to."""

    def write(self, data: bytes) -> int: ...

    def taken(self) -> bytes:
        """What may leave now."""

    def rest(self) -> bytes:
        """What has not left, once all is written."""


class _Passing:
    """Bytes on their way: a muxer that finds no ``seek`` never looks back."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        self._bytes += data
        return len(data)

    def taken(self) -> bytes:
        taken = bytes(self._bytes)
        self._bytes.clear()
        return taken

    rest = taken


class _Seekable(io.BytesIO):
    """A whole file, whose header is written again when its length is known."""

    def taken(self) -> bytes:
        return b""

    rest = io.BytesIO.getvalue
