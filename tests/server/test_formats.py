"""Encoding of samples into every format, at every speed and sample rate."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from engine.protocol.samples import to_float32, to_int16
from server.audio.encoders import FORMATS
from server.audio.pipeline import Chain
from tests.server.audio_decoding import CONTENT_TYPES, decode_audio, max_padding

KINDS = sorted(FORMATS)
CODEC_FRAME = 0.08
PITCH = 220.0


def voice(seconds: float) -> NDArray[np.int16]:
    """A tone of frequency PITCH with amplitude modulation and some noise; its length is no multiple of any frame."""
    time = np.arange(int(seconds * SAMPLE_RATE) + 777) / SAMPLE_RATE
    tone = np.sin(2 * np.pi * PITCH * time) * (0.4 + 0.1 * np.sin(2 * np.pi * 3 * time))
    return to_int16((tone + np.random.default_rng(0).normal(0, 0.01, len(time))).astype(np.float32))


def encode(kind: str, samples: NDArray[np.int16], piece: int = 1920, **options: object) -> bytes:
    chain = Chain(FORMATS[kind], **options)  # type: ignore[arg-type]
    parts = [chain.encode(samples[at : at + piece]) for at in range(0, len(samples), piece)]
    data = b"".join([*parts, chain.finish()])
    chain.close()
    return data


def pitch(samples: NDArray[np.float32], rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_a_streamed_file_has_the_duration_and_pitch_of_the_samples(kind: str, rate: int) -> None:
    samples = voice(2)
    data = encode(kind, samples, rate=rate)
    decoded, decoded_rate = decode_audio(data, kind, rate)
    expected_rate = FORMATS[kind].rate_for(rate)
    assert decoded_rate == expected_rate
    seconds = len(decoded) / decoded_rate - len(samples) / SAMPLE_RATE
    assert -1e-3 < seconds <= max_padding(kind, expected_rate) / expected_rate + 1e-3
    assert pitch(decoded, decoded_rate) == pytest.approx(PITCH, abs=1)
    assert 0.2 < np.sqrt(np.mean(decoded[decoded_rate // 2 : decoded_rate] ** 2)) < 0.4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"streaming": False}, {"speed": 0.4}, {"speed": 3.0}, {"rate": 16_000}], ids=str
)
def test_the_file_does_not_depend_on_the_piece_size(kind: str, options: dict[str, object]) -> None:
    samples = voice(0.5)
    whole, *others = (encode(kind, samples, piece, **options) for piece in (len(samples), 1, 1000, 1920))
    assert others == [whole] * 3


@pytest.mark.parametrize("kind", ["wav", "flac"])
@pytest.mark.parametrize("streaming", [True, False])
def test_lossless_formats_keep_every_sample(kind: str, streaming: bool) -> None:
    samples = voice(1)
    decoded, rate = decode_audio(encode(kind, samples, streaming=streaming), kind)
    assert rate == SAMPLE_RATE
    assert (decoded * 32768).astype("<i2").tobytes() == samples.tobytes()


@pytest.mark.parametrize("kind", ["mp3", "opus", "flac", "wav"])
def test_a_complete_file_declares_its_length(kind: str) -> None:
    """Exactly; only for an MP3 with an almost empty last frame FFmpeg reports up to 2 ms more."""
    samples = voice(1)
    data = encode(kind, samples, streaming=False)
    info = sf.info(io.BytesIO(data))
    assert info.samplerate == SAMPLE_RATE
    assert 0 <= info.frames - len(samples) <= (48 if kind == "mp3" else 0)
    assert len(decode_audio(data, kind)[0]) == info.frames


def test_a_complete_wav_declares_its_sizes_and_a_streamed_one_does_not() -> None:
    samples = voice(1)
    streamed, whole = (encode("wav", samples, streaming=streaming) for streaming in (True, False))
    assert struct.unpack_from("<I", streamed, 4) == struct.unpack_from("<I", streamed, 40) == (0xFFFFFFFF,)
    assert struct.unpack_from("<I", whole, 4) == (len(whole) - 8,)
    assert struct.unpack_from("<I", whole, 40) == (len(whole) - 44,)
    assert streamed[44:] == whole[44:] == samples.tobytes()


@pytest.mark.parametrize(("kind", "streaming"), [("wav", True), ("wav", False), ("flac", False)])
def test_soundfile_and_wave_read_a_saved_file_to_its_end(kind: str, streaming: bool, tmp_path: Path) -> None:
    """They refuse a FLAC file of unknown length, so FLAC is to be requested whole."""
    samples, path = voice(1), tmp_path / f"saved.{kind}"
    path.write_bytes(encode(kind, samples, streaming=streaming))
    np.testing.assert_array_equal(sf.read(path, dtype="int16")[0], samples)
    if kind == "wav":
        with wave.open(str(path)) as file:
            assert file.readframes(2**20) == samples.tobytes()


@pytest.mark.parametrize(
    ("kind", "seconds"), [("pcm", 0), ("wav", 0), ("flac", 0.04), ("opus", 0.04), ("mp3", 0.05), ("aac", 0.09)]
)
def test_the_first_audio_is_emitted_as_early_as_the_format_permits(kind: str, seconds: float) -> None:
    samples, chain = voice(1), Chain(FORMATS[kind])
    chain.encode(samples[:0])  # header
    position = 0
    while not chain.encode(samples[position : position + 24]):
        position += 24
    chain.close()
    assert position <= seconds * SAMPLE_RATE


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.9, 1.1, 2.0, 2.5, 4.0])
def test_speed_changes_the_duration_but_not_the_pitch(speed: float) -> None:
    samples = voice(2)
    decoded, rate = decode_audio(encode("pcm", samples, speed=speed), "pcm")
    assert len(decoded) / rate == pytest.approx(len(samples) / SAMPLE_RATE / speed, abs=CODEC_FRAME)
    assert pitch(decoded, rate) == pytest.approx(PITCH, abs=2)


def test_speed_one_keeps_every_sample() -> None:
    samples = voice(1)
    assert encode("pcm", samples, speed=1.0) == samples.tobytes()


@pytest.mark.parametrize("speed", [0.25, 4.0])
def test_changed_speed_streams_with_low_latency(speed: float) -> None:
    samples, chain = voice(1), Chain(FORMATS["pcm"], speed=speed)
    assert any(chain.encode(samples[at : at + 1920]) for at in range(0, SAMPLE_RATE // 4, 1920))
    chain.close()


@pytest.mark.parametrize("rate", [8_000, 11_025, 12_345, 16_000, 44_100, 48_000])
def test_streamed_resampling_equals_offline_resampling(rate: int) -> None:
    samples = voice(1)
    whole = soxr.resample(to_float32(samples), SAMPLE_RATE, rate, quality="HQ")
    assert encode("pcm", samples, rate=rate) == to_int16(whole).tobytes()


@pytest.mark.parametrize(
    ("kind", "requested", "actual"),
    [
        ("opus", 44_100, 48_000),
        ("opus", 9_000, 12_000),
        ("mp3", 9_000, 11_025),
        ("aac", 40_000, 44_100),
        ("flac", 9_001, 9_001),
    ],
)
def test_an_unsupported_rate_becomes_the_next_higher_one(kind: str, requested: int, actual: int) -> None:
    chain = Chain(FORMATS[kind], rate=requested)
    assert chain.rate == actual
    chain.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("speed", [0.5, 1.0])
def test_encodes_empty_and_one_sample_inputs(kind: str, streaming: bool, speed: float) -> None:
    for samples in (voice(0)[:0], voice(0)[:1]):
        data = encode(kind, samples, streaming=streaming, speed=speed)
        if kind in ("wav", "flac"):
            assert len(decode_audio(data, kind)[0]) <= 2 * len(samples)


def test_every_format_has_its_content_type() -> None:
    assert {name: kind.media_type for name, kind in FORMATS.items()} == CONTENT_TYPES


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfinished_chain_can_be_closed_twice(kind: str) -> None:
    for streaming in (True, False):
        chain = Chain(FORMATS[kind], streaming=streaming, speed=1.5, rate=16_000)
        chain.encode(voice(1))
        chain.close()
        chain.close()
