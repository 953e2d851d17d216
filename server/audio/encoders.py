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

_UNKNOWN_SIZE = 0xFFFFFFFF
_SAMPLE_BYTES = 2
_RIFF_OVERHEAD = 36
"""Bytes of the header that count toward the RIFF size."""


def wav_header(rate: int, samples: int | None) -> bytes:
    """Return the 44-byte WAV header. With ``samples`` None the length is unknown and both sizes are 0xFFFFFFFF."""
    data = _UNKNOWN_SIZE if samples is None else samples * _SAMPLE_BYTES
    riff = _UNKNOWN_SIZE if samples is None else data + _RIFF_OVERHEAD
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

    def __init__(self, rate: int, streaming: bool) -> None:
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

    When streaming, the header is sent first, with unknown sizes. Otherwise ``finish`` returns the file, with its length
    in the header.
    """

    def __init__(self, rate: int, streaming: bool) -> None:
        self._rate, self._streaming = rate, streaming
        self._pieces = [wav_header(rate, None)] if streaming else []

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Return the samples, with the header before the first ones; no bytes unless streaming."""
        self._pieces.append(samples.tobytes())
        return self._take() if self._streaming else b""

    def finish(self) -> bytes:
        """Return the file. When streaming, return the header if no sample followed, else no bytes."""
        if not self._streaming:
            self._pieces.insert(0, wav_header(self._rate, sum(map(len, self._pieces)) // 2))
        return self._take()

    def close(self) -> None:
        """Drop the buffered bytes."""
        self._pieces = []

    def _take(self) -> bytes:
        data, self._pieces = b"".join(self._pieces), []
        return data


_MUXER = {"flush_packets": "1", "fflags": "+bitexact"}
"""Flush every packet at once. Write no random numbers and no version, so that the same samples give the same bytes."""
_FLAC_FRAMES_PER_SECOND = 25


def mp3(rate: int, streaming: bool) -> CodedEncoder:
    """Return an MP3 encoder: 64 kbit/s, no bit reservoir. Streams lack the Xing frame, which contains the length."""
    muxer = {"write_xing": str(int(not streaming)), "id3v2_version": "0"}
    return CodedEncoder("mp3", "libmp3lame", rate, streaming, muxer, {"b": "64k", "reservoir": "0"})


def opus(rate: int, streaming: bool) -> CodedEncoder:
    """Return an Opus encoder: 32 kbit/s in Ogg, one page per 20 ms. The pages carry the exact length."""
    return CodedEncoder("ogg", "libopus", rate, streaming, {"page_duration": "20000"}, {"b": "32k"})


def aac(rate: int, streaming: bool) -> CodedEncoder:
    """Return an AAC-LC encoder: 64 kbit/s in ADTS, which cannot carry a length."""
    return CodedEncoder("adts", "aac", rate, streaming, {}, {"b": "64k"})


def flac(rate: int, streaming: bool) -> CodedEncoder:
    """Return a FLAC encoder with frames of 40 ms. The header of a stream lacks the length and the checksum."""
    frame = {"frame_size": str(rate // _FLAC_FRAMES_PER_SECOND)}
    return CodedEncoder("flac", "flac", rate, streaming, {"metadata_header_padding": "0"}, frame)


class CodedEncoder:
    """A mono file made by an FFmpeg encoder and muxer. Unless ``streaming``, only ``finish`` returns bytes.

    Not thread-safe: calls may come from different threads, but only one at a time.
    """

    def __init__(
        self,
        container: str,
        codec: str,
        rate: int,
        streaming: bool,
        container_options: Mapping[str, str],
        codec_options: Mapping[str, str],
    ) -> None:
        self._rate, self._samples = rate, 0
        self._sink: _Sink = _StreamSink() if streaming else _FileSink()
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
        return self._sink.take()

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

    def take(self) -> bytes:
        """Return the bytes that can be sent now, and remove them."""

    def rest(self) -> bytes:
        """Return the remaining bytes, after the muxer is closed."""


class _StreamSink:
    """A sink for streaming. It has no ``seek``, so the muxer never rewrites what it has written."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        self._bytes += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._bytes)
        self._bytes.clear()
        return data

    rest = take


class _FileSink(io.BytesIO):
    """A sink for a complete file. It is seekable, so the muxer rewrites the header once the length is known."""

    def take(self) -> bytes:
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

    Attributes:
        media_type: the Content-Type.
        encoder: creates an encoder from the sample rate in Hz, and whether it streams. If not, ``finish`` returns the
            complete file, and its header contains the length.
        rates: sample rates that the codec supports, ascending; None if it supports any.
        light: whether encoding costs no more than a copy of the samples.
    """

    media_type: str
    encoder: Callable[[int, bool], Encoder]
    rates: tuple[int, ...] | None = None
    light: bool = False

    def rate_for(self, requested: int) -> int:
        """Return the lowest rate in Hz that the codec supports and that is at least ``requested`` (at most 48000)."""
        return requested if self.rates is None else min(rate for rate in self.rates if rate >= requested)


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
