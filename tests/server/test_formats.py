"""Samples to files of every format, at every speed and rate."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from engine.protocol.samples import to_float32, to_int16
from server.audio.encoders import FORMATS
from server.audio.pipeline import Chain
from tests.server.hearing import CONTENT_TYPES, hear, padding

KINDS = sorted(FORMATS)
CODEC_FRAME = 0.08
PITCH = 220.0


def voice(seconds: float) -> NDArray[np.int16]:
    """A tone of PITCH that swells and fades, in a little noise; its length is no multiple of any frame."""
    time = np.arange(int(seconds * SAMPLE_RATE) + 777) / SAMPLE_RATE
    tone = np.sin(2 * np.pi * PITCH * time) * (0.4 + 0.1 * np.sin(2 * np.pi * 3 * time))
    return to_int16((tone + np.random.default_rng(0).normal(0, 0.01, len(time))).astype(np.float32))


def written(kind: str, samples: NDArray[np.int16], piece: int = 1920, **asked: object) -> bytes:
    chain = Chain(FORMATS[kind], **asked)  # type: ignore[arg-type]
    parts = [chain.encode(samples[at : at + piece]) for at in range(0, len(samples), piece)]
    data = b"".join([*parts, chain.finish()])
    chain.close()
    return data


def pitch(samples: NDArray[np.float32], rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_a_streamed_file_is_as_long_as_the_speech_and_sounds_like_it(kind: str, rate: int) -> None:
    samples = voice(2)
    data = written(kind, samples, rate=rate)
    heard, heard_rate = hear(data, kind, rate)
    stands_at = FORMATS[kind].rate_for(rate)
    assert heard_rate == stands_at
    seconds = len(heard) / heard_rate - len(samples) / SAMPLE_RATE
    assert -1e-3 < seconds <= padding(kind, stands_at) / stands_at + 1e-3
    assert pitch(heard, heard_rate) == pytest.approx(PITCH, abs=1)
    assert 0.2 < np.sqrt(np.mean(heard[heard_rate // 2 : heard_rate] ** 2)) < 0.4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [{}, {"streaming": False}, {"speed": 0.4}, {"speed": 3.0}, {"rate": 16_000}], ids=str)
def test_pieces_of_any_size_make_the_same_file(kind: str, asked: dict[str, object]) -> None:
    samples = voice(0.5)
    whole, *others = (written(kind, samples, piece, **asked) for piece in (len(samples), 1, 1000, 1920))
    assert others == [whole] * 3


@pytest.mark.parametrize("kind", ["wav", "flac"])
@pytest.mark.parametrize("streaming", [True, False])
def test_a_format_without_loss_is_read_back_sample_for_sample(kind: str, streaming: bool) -> None:
    samples = voice(1)
    heard, rate = hear(written(kind, samples, streaming=streaming), kind)
    assert rate == SAMPLE_RATE
    assert (heard * 32768).astype("<i2").tobytes() == samples.tobytes()


@pytest.mark.parametrize("kind", ["mp3", "opus", "flac", "wav"])
def test_a_whole_file_tells_its_length(kind: str) -> None:
    """Exactly; but of an MP3 whose last frame has next to nothing in it, FFmpeg tells up to 2 ms more."""
    samples = voice(1)
    data = written(kind, samples, streaming=False)
    told = sf.info(io.BytesIO(data))
    assert told.samplerate == SAMPLE_RATE
    assert 0 <= told.frames - len(samples) <= (48 if kind == "mp3" else 0)
    assert len(hear(data, kind)[0]) == told.frames


def test_a_wav_has_its_sizes_when_it_is_whole_and_open_ones_when_it_streams() -> None:
    samples = voice(1)
    streamed, whole = (written("wav", samples, streaming=streaming) for streaming in (True, False))
    assert struct.unpack_from("<I", streamed, 4) == struct.unpack_from("<I", streamed, 40) == (0xFFFFFFFF,)
    assert struct.unpack_from("<I", whole, 4) == (len(whole) - 8,)
    assert struct.unpack_from("<I", whole, 40) == (len(whole) - 44,)
    assert streamed[44:] == whole[44:] == samples.tobytes()


@pytest.mark.parametrize(
    ("kind", "seconds"), [("pcm", 0), ("wav", 0), ("flac", 0.04), ("opus", 0.04), ("mp3", 0.05), ("aac", 0.09)]
)
def test_the_first_sound_leaves_after_as_little_as_the_format_permits(kind: str, seconds: float) -> None:
    samples, chain = voice(1), Chain(FORMATS[kind])
    chain.encode(samples[:0])  # what stands before the sound
    taken = 0
    while not chain.encode(samples[taken : taken + 24]):
        taken += 24
    chain.close()
    assert taken <= seconds * SAMPLE_RATE


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.9, 1.1, 2.0, 2.5, 4.0])
def test_speed_changes_the_length_and_not_the_pitch(speed: float) -> None:
    samples = voice(2)
    heard, rate = hear(written("pcm", samples, speed=speed), "pcm")
    assert len(heard) / rate == pytest.approx(len(samples) / SAMPLE_RATE / speed, abs=CODEC_FRAME)
    assert pitch(heard, rate) == pytest.approx(PITCH, abs=2)


def test_at_speed_one_the_samples_are_untouched() -> None:
    samples = voice(1)
    assert written("pcm", samples, speed=1.0) == samples.tobytes()


@pytest.mark.parametrize("speed", [0.25, 4.0])
def test_speech_that_is_stretched_leaves_while_it_comes(speed: float) -> None:
    samples, chain = voice(1), Chain(FORMATS["pcm"], speed=speed)
    assert any(chain.encode(samples[at : at + 1920]) for at in range(0, SAMPLE_RATE // 4, 1920))
    chain.close()


@pytest.mark.parametrize("rate", [8_000, 11_025, 12_345, 16_000, 44_100, 48_000])
def test_another_rate_in_a_stream_is_what_the_whole_would_be(rate: int) -> None:
    samples = voice(1)
    whole = soxr.resample(to_float32(samples), SAMPLE_RATE, rate, quality="HQ")
    assert written("pcm", samples, rate=rate) == to_int16(whole).tobytes()


@pytest.mark.parametrize(
    ("kind", "asked", "given"),
    [
        ("opus", 44_100, 48_000),
        ("opus", 9_000, 12_000),
        ("mp3", 9_000, 11_025),
        ("aac", 40_000, 44_100),
        ("flac", 9_001, 9_001),
    ],
)
def test_a_rate_the_codec_does_not_know_becomes_the_next_one(kind: str, asked: int, given: int) -> None:
    chain = Chain(FORMATS[kind], rate=asked)
    assert chain.rate == given
    chain.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("speed", [0.5, 1.0])
def test_next_to_nothing_is_a_file_too(kind: str, streaming: bool, speed: float) -> None:
    for samples in (voice(0)[:0], voice(0)[:1]):
        data = written(kind, samples, streaming=streaming, speed=speed)
        if kind in ("wav", "flac"):
            assert len(hear(data, kind)[0]) <= 2 * len(samples)


def test_every_format_has_its_content_type() -> None:
    assert {name: kind.media_type for name, kind in FORMATS.items()} == CONTENT_TYPES


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_given_up_midway_is_closed_and_closed_again(kind: str) -> None:
    for streaming in (True, False):
        chain = Chain(FORMATS[kind], streaming=streaming, speed=1.5, rate=16_000)
        chain.encode(voice(1))
        chain.close()
        chain.close()
