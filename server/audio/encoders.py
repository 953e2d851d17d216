"""Streaming audio encoders: each turns the samples of one utterance into one valid file, chunk by chunk."""

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
    """Return the 44-byte WAV header. With ``samples`` None the length is unknown and both sizes are 0xFFFFFFFF."""
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
    """Raw mono samples, 16-bit little-endian, without a header."""

    def __init__(self, rate: int, whole: bool) -> None:
        pass

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the samples, two bytes each."""
        return samples.tobytes()

    def finish(self) -> bytes:
        """Return no bytes: nothing is buffered."""
        return b""

    def close(self) -> None:
        """Do nothing: there is nothing to free."""


class WavEncoder:
    """WAV (RIFF).

    When streaming, the header is sent first, with unknown sizes. A whole file is returned at the end, with its length.
    """

    def __init__(self, rate: int, whole: bool) -> None:
        self._rate, self._whole = rate, whole
        self._pieces = [] if whole else [wav_header(rate, None)]

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the samples, with the header before the first ones. Returns no bytes for a whole file."""
        self._pieces.append(samples.tobytes())
        return b"" if self._whole else self._taken()

    def finish(self) -> bytes:
        """Return the whole file. When streaming, return the header if no sample followed, else no bytes."""
        if self._whole:
            self._pieces.insert(0, wav_header(self._rate, sum(map(len, self._pieces)) // 2))
        return self._taken()

    def close(self) -> None:
        """Drop the buffered bytes."""
        self._pieces = []

    def _taken(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


_MUXER = {"flush_packets": "1", "fflags": "+bitexact"}
"""Flush every packet at once. Write no random numbers and no version, so that the same samples give the same bytes."""
_FLAC_FRAMES_A_SECOND = 25


def mp3(rate: int, whole: bool) -> CodedEncoder:
    """Return an MP3 encoder: 64 kbit/s, no bit reservoir. Only a whole file has the Xing frame with its length."""
    muxer = {"write_xing": str(int(whole)), "id3v2_version": "0"}
    return CodedEncoder("mp3", "libmp3lame", rate, whole, muxer, {"b": "64k", "reservoir": "0"})


def opus(rate: int, whole: bool) -> CodedEncoder:
    """Return an Opus encoder: 32 kbit/s in Ogg, one page per 20 ms. The pages carry the exact length."""
    return CodedEncoder("ogg", "libopus", rate, whole, {"page_duration": "20000"}, {"b": "32k"})


def aac(rate: int, whole: bool) -> CodedEncoder:
    """Return an AAC-LC encoder: 64 kbit/s in ADTS, which cannot carry a length."""
    return CodedEncoder("adts", "aac", rate, whole, {}, {"b": "64k"})


def flac(rate: int, whole: bool) -> CodedEncoder:
    """Return a FLAC encoder with frames of 40 ms. Only a whole file's header has its length and checksum."""
    frame = {"frame_size": str(rate // _FLAC_FRAMES_A_SECOND)}
    return CodedEncoder("flac", "flac", rate, whole, {"metadata_header_padding": "0"}, frame)


class CodedEncoder:
    """A mono file made by an FFmpeg encoder and muxer. A whole file is returned by ``finish`` only.

    Not thread-safe: calls may come from different threads, but only one at a time.
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
        """Return the bytes that these samples complete, possibly none."""
        if len(samples):
            self._mux(self._frame(samples))
        return self._sink.taken()

    def finish(self) -> bytes:
        """Return the buffered bytes and the trailer of the file."""
        self._mux(None)
        self._container.close()
        return self._sink.rest()

    def close(self) -> None:
        """Free FFmpeg's resources. Calling it again does nothing."""
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
    """The file object that a muxer writes to."""

    def write(self, data: bytes) -> int: ...

    def taken(self) -> bytes:
        """Return the bytes that can be sent now, and forget them."""

    def rest(self) -> bytes:
        """Return the remaining bytes, after the muxer is closed."""


class _Passing:
    """A sink for streaming. It has no ``seek``, so the muxer never rewrites what it has written."""

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
    """A sink for a whole file. It is seekable, so the muxer rewrites the header once the length is known."""

    def taken(self) -> bytes:
        return b""

    rest = io.BytesIO.getvalue


class Encoder(Protocol):
    """Encodes one utterance. The results of ``encode`` and ``finish``, concatenated, are one file."""

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the bytes that these samples complete, possibly none."""

    def finish(self) -> bytes:
        """Return the buffered bytes and the trailer of the file."""

    def close(self) -> None:
        """Free all resources, finished or not."""


@dataclass(frozen=True, slots=True)
class Format:
    """An output format.

    media_type: the Content-Type.
    encoder: creates an encoder from the sample rate in Hz, and whether the file is returned whole at the end. Only
        then can its header contain the length.
    rates: sample rates that the codec supports, ascending; None if it supports any.
    light: whether encoding costs no more than a copy of the samples.
    """

    media_type: str
    encoder: Callable[[int, bool], Encoder]
    rates: tuple[int, ...] | None = None
    light: bool = False

    def rate_for(self, asked: int) -> int:
        """Return the lowest rate in Hz that the codec supports and that is at least ``asked`` (at most 48000)."""
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
"""Formats by the API's ``response_format``."""
