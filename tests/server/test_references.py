"""Decoding of reference recordings: accepted formats, limits and error codes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from server.errors import ApiError
from server.limits import Limits
from server.references.decoders import decode_reference
from server.references.library import read_data_url
from tests.server.corrupt_recordings import count_refusals

LIMITS = Limits()
MAX_BYTES = LIMITS.reference_max_bytes
RATE = 16_000


def tone(seconds: float, rate: int = RATE, peak: float = 0.5) -> NDArray[np.float32]:
    return (peak * np.sin(np.arange(int(seconds * rate)) * 0.05)).astype(np.float32)


def encode(samples: NDArray[np.float32], rate: int = RATE, kind: str = "WAV", subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    sf.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()


def with_data_size(data: bytes, size: int) -> bytes:
    """A WAV whose data chunk declares ``size`` bytes."""
    at = data.index(b"data") + 4
    return data[:at] + size.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_decodes_common_formats(kind: str) -> None:
    reference = decode_reference(encode(tone(2.0), kind=kind), LIMITS)
    assert reference.rate == RATE
    assert abs(len(reference.samples) - 2 * RATE) < RATE // 10
    assert reference.samples.dtype == np.float32


def test_mixes_channels_down() -> None:
    left, right = tone(1.5), 0.1 * tone(1.5)
    reference = decode_reference(encode(np.stack([left, right], 1), subtype="FLOAT"), LIMITS)
    np.testing.assert_allclose(reference.samples, (left + right) / 2, atol=1e-7)


def test_the_limits_of_duration_are_inclusive() -> None:
    for seconds in (LIMITS.reference_min_seconds, LIMITS.reference_max_seconds):
        assert len(decode_reference(encode(tone(seconds, 8_000), 8_000), LIMITS).samples) == seconds * 8_000


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "invalid_value"),
    "text": (lambda: b"this is not audio" * 100, "invalid_value"),
    "half a header": (lambda: encode(tone(1.5))[:20], "invalid_value"),
    "too short": (lambda: encode(tone(0.9)), "reference_too_short"),
    "no samples": (lambda: encode(tone(0)), "reference_too_short"),
    "too long": (lambda: encode(tone(30.1, 8_000), 8_000), "reference_too_long"),
    "longer than its header declares": (
        lambda: with_data_size(encode(tone(31, 8_000), 8_000), 0xFFFFFFFF),
        "reference_too_long",
    ),
    "silent": (lambda: encode(np.zeros(2 * RATE, np.float32)), "reference_silent"),
    "almost silent": (lambda: encode(tone(2, peak=5e-4)), "reference_silent"),
    "not a number": (lambda: encode(np.full(2 * RATE, np.nan, np.float32), subtype="FLOAT"), "invalid_value"),
    "infinite": (lambda: encode(np.full(2 * RATE, np.inf, np.float32), subtype="FLOAT"), "invalid_value"),
    "not normalized": (lambda: encode(1000 * tone(2), subtype="FLOAT"), "invalid_value"),
    "sample rate too low": (lambda: encode(tone(2, 4_000), 4_000), "invalid_value"),
    "too many channels": (lambda: encode(np.stack([tone(2)] * 9, 1)), "invalid_value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_recordings_that_cannot_be_cloned(case: str) -> None:
    make, code = REFUSED[case]
    with pytest.raises(ApiError) as refusal:
        decode_reference(make(), LIMITS)
    assert (refusal.value.status, refusal.value.param, refusal.value.code) == (400, "ref_audio", code)


def test_a_file_that_is_too_large_is_not_opened() -> None:
    data = encode(tone(2))
    with pytest.raises(ApiError, match="bytes"):
        decode_reference(data, Limits(reference_max_bytes=len(data) - 1))


def test_decodes_a_data_url() -> None:
    assert read_data_url("data:audio/wav;base64," + base64.b64encode(b"abc").decode(), MAX_BYTES) == b"abc"
    assert read_data_url("DATA:;BASE64," + base64.b64encode(b"abcd").decode(), MAX_BYTES) == b"abcd"


def test_base64_may_contain_line_breaks() -> None:
    text = base64.encodebytes(bytes(range(256))).decode()
    assert "\n" in text
    for broken in (text, text.replace("\n", "\r\n")):
        assert read_data_url("data:audio/wav;base64," + broken, MAX_BYTES) == bytes(range(256))


def test_the_error_lists_the_supported_formats() -> None:
    with pytest.raises(ApiError, match=r"WAV, FLAC, MP3, Ogg Vorbis or Opus, AIFF"):
        decode_reference(b"this is not audio" * 100, LIMITS)


@pytest.mark.filterwarnings("error")
def test_refuses_infinite_samples_without_a_warning() -> None:
    samples = np.stack([np.full(2 * RATE, np.inf), np.full(2 * RATE, -np.inf)], 1).astype(np.float32)
    with pytest.raises(ApiError, match="finite"):
        decode_reference(encode(samples, subtype="FLOAT"), LIMITS)


@pytest.mark.parametrize(
    "url", ["data:", "data:audio/wav;base64", "data:audio/wav,abcd", "data:;base64,a*cd", "data:;base64,abc"]
)
def test_refuses_an_invalid_data_url(url: str) -> None:
    with pytest.raises(ApiError) as refusal:
        read_data_url(url, MAX_BYTES)
    assert (refusal.value.status, refusal.value.param, refusal.value.code) == (400, "ref_audio", "invalid_value")


def test_a_data_url_that_is_too_large_is_not_decoded() -> None:
    assert len(read_data_url("data:;base64," + base64.b64encode(bytes(1000)).decode(), 1000)) == 1000
    with pytest.raises(ApiError, match="bytes"):
        read_data_url("data:;base64," + base64.b64encode(bytes(1010)).decode(), 1000)


def forty_minutes(kind: str) -> bytes:
    """A long file. The MP3 repeats a 10 s file without its first frame, which declares the duration."""
    if kind == "MP3":
        short = encode(tone(10, 8_000), 8_000, kind)
        return short[short.index(short[:2], 4) :] * 240
    file = io.BytesIO()
    with sf.SoundFile(file, "w", 8_000, 1, "PCM_U8" if kind == "WAV" else None, format=kind) as writer:
        for _ in range(240):
            writer.write(tone(10, 8_000))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_refuses_forty_minutes_without_decoding_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = forty_minutes(kind)
    monkeypatch.setattr(np, "concatenate", None)
    with pytest.raises(ApiError) as refusal:
        decode_reference(data, Limits(reference_max_bytes=2**26))
    assert refusal.value.code == "reference_too_long"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_refuses_a_single_sample_that_is_not_finite(value: float) -> None:
    samples = tone(2)
    samples[RATE] = value
    with pytest.raises(ApiError, match="finite"):
        decode_reference(encode(samples, subtype="FLOAT"), LIMITS)


def corruptions(data: bytes) -> Iterator[bytes]:
    """``data`` with its first bytes corrupted in cheap ways: changed, removed, cut off."""
    for at in range(min(128, len(data))):
        for value in (0x00, 0x7F, 0xFF, data[at] ^ 0x01, data[at] ^ 0x80):
            yield data[:at] + bytes([value]) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at]
        yield data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_a_corrupt_header_is_refused_or_decodes_within_bounds(kind: str) -> None:
    assert count_refusals(corruptions(encode(tone(1.2, 8_000), 8_000, kind)), LIMITS) > 20
