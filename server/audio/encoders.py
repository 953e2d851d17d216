"""Audio encoders: each turns the samples of one utterance into one valid file, piece by piece."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from numpy.typing import NDArray

_UNKNOWN = 0xFFFFFFFF
_SAMPLE_BYTES = 2
_HEADER_AFTER_SIZE = 36


def wav_header(rate: int, samples: int | None) -> bytes:
    """44 bytes. ``samples`` None: the length is not known yet, and both sizes say 0xFFFFFFFF."""
    data = _UNKNOWN if samples is None else samples * _SAMPLE_BYTES
    riff = _UNKNOWN if samples is None else data + _HEADER_AFTER_SIZE
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        riff,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        rate,
        rate * _SAMPLE_BYTES,
        _SAMPLE_BYTES,
        8 * _SAMPLE_BYTES,
        b"data",
        data,
    )


class PcmEncoder:
    """Bare 16-bit little-endian samples, mono."""

    def __init__(self, rate: int, whole: bool) -> None:
        pass

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Two bytes a sample."""
        return samples.tobytes()

    def finish(self) -> bytes:
        """Nothing is held back."""
        return b""

    def close(self) -> None:
        """Nothing is held."""


class WavEncoder:
    """RIFF. Streamed, the header leaves first and its sizes are open; whole, it waits for the length."""

    def __init__(self, rate: int, whole: bool) -> None:
        self._rate, self._whole = rate, whole
        self._pieces = [] if whole else [wav_header(rate, None)]

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Two bytes a sample, and the header before the first of them; nothing yet of a whole file."""
        self._pieces.append(samples.tobytes())
        return b"" if self._whole else self._taken()

    def finish(self) -> bytes:
        """The whole file, or a header that no sample has followed."""
        if self._whole:
            self._pieces.insert(0, wav_header(self._rate, sum(map(len, self._pieces)) // 2))
        return self._taken()

    def close(self) -> None:
        """Drop what is held."""
        self._pieces = []

    def _taken(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


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
