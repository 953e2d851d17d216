"""Recordings from browsers and phones, decoded by FFmpeg under the same bounds as all others."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from server.errors import ApiError
from server.limits import Limits
from server.references.decoders import decode_reference
from tests.server.containers import FRAGMENTED, KINDS, encode_recording, encode_video, repeat_packets
from tests.server.corrupt_recordings import count_refusals
from tests.server.serving import SPEECH, speech
from tests.server.test_bad_input import check

LIMITS = Limits()
ALAC = ("ipod", "alac", 16_000, {})


def tone(seconds: float, rate: int, peak: float = 0.4) -> NDArray[np.float32]:
    time = np.arange(int(seconds * rate)) / rate
    return (peak * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


def encode(kind: str, seconds: float = 2.0) -> bytes:
    container, codec, rate, options = KINDS[kind]
    return encode_recording(tone(seconds, rate), container, codec, rate, options)


def pitch(samples: NDArray[np.float32], rate: int) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax() * rate / len(samples))


@pytest.mark.parametrize("kind", KINDS)
def test_decodes_the_recorded_audio(kind: str) -> None:
    reference = decode_reference(encode(kind), LIMITS)
    assert reference.rate == KINDS[kind][2]
    assert reference.samples.dtype == np.float32
    assert abs(len(reference.samples) / reference.rate - 2) < 0.1
    assert pitch(reference.samples, reference.rate) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("kind", ["WebM of Opus", "M4A of ALAC", "QuickTime of samples"])
def test_mixes_channels_down(kind: str) -> None:
    container, codec, rate, options = KINDS[kind]
    stereo = np.stack([tone(2, rate), np.zeros(2 * rate, np.float32)])
    reference = decode_reference(encode_recording(stereo, container, codec, rate, options), LIMITS)
    assert float(np.abs(reference.samples).max()) == pytest.approx(0.2, abs=0.03)


def test_decodes_the_audio_track_of_a_video() -> None:
    reference = decode_reference(encode_video(tone(2, 48_000)), LIMITS)
    assert pitch(reference.samples, reference.rate) == pytest.approx(440, abs=2)


def test_decodes_a_truncated_recording_up_to_its_end() -> None:
    data = encode("bare AAC", 3)
    reference = decode_reference(data[: len(data) * 2 // 3], LIMITS)
    assert 1.5 < len(reference.samples) / reference.rate < 2.5


def with_one_sample(value: float) -> Callable[[], bytes]:
    samples = tone(2, 48_000)
    samples[48_000] = value
    return lambda: encode_recording(samples, "mov", "pcm_f32le", 48_000, {})


def replace_last(data: bytes, old: bytes, new: bytes) -> bytes:
    """``data`` with its last ``old`` replaced by ``new``."""
    before, found, after = data.rpartition(old)
    assert found
    return before + new + after


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "too short": (lambda: encode("WebM of Opus", 0.9), "reference_too_short"),
    "too long": (lambda: encode("M4A of AAC", 30.5), "reference_too_long"),
    "half a header": (lambda: encode("MP4 of AAC")[:60], "invalid_value"),
    "no header at its end": (lambda: encode("MP4 of AAC")[:-400], "invalid_value"),
    "silent": (lambda: encode_recording(np.zeros(96_000), "webm", "libopus", 48_000, {}), "reference_silent"),
    "not a number": (with_one_sample(np.nan), "invalid_value"),
    "infinite": (with_one_sample(np.inf), "invalid_value"),
    "not normalized": (with_one_sample(1000.0), "invalid_value"),
    "video only": (lambda: encode_video(None), "invalid_value"),
    "an unsupported codec": (lambda: encode_recording(tone(2, 48_000), "mov", "pcm_alaw", 48_000, {}), "invalid_value"),
    "a sample rate that changes": (
        lambda: encode("bare AAC") + encode_recording(tone(2, 48_000), "adts", "aac", 48_000, {}),
        "invalid_value",
    ),
    "frames with a huge declared size": (
        lambda: replace_last(encode_recording(tone(2, 16_000), *ALAC), (4096).to_bytes(4), (2**24).to_bytes(4)),
        "reference_too_short",
    ),
    "only the magic bytes": (lambda: b"\x1aE\xdf\xa3", "invalid_value"),
    "a playlist of local files": (lambda: b"#EXTM3U\n#EXTINF:9,\nfile:///etc/hostname\n", "invalid_value"),
    "a concat list of local files": (lambda: b"ffconcat version 1.0\nfile /etc/hostname\n", "invalid_value"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", REFUSED)
def test_refuses_recordings_that_cannot_be_cloned(case: str) -> None:
    make, code = REFUSED[case]
    with pytest.raises(ApiError) as refusal:
        decode_reference(make(), LIMITS)
    assert (refusal.value.status, refusal.value.param, refusal.value.code) == (400, "ref_audio", code)


TEN_MINUTES: dict[str, Callable[[], bytes]] = {
    "WebM without a length": lambda: repeat_packets(encode("WebM of Opus"), "webm", {"live": "1"}, 300),
    "WebM": lambda: repeat_packets(encode("WebM of Opus"), "webm", {}, 300),
    "MP4": lambda: repeat_packets(encode("MP4 of AAC"), "mp4", {}, 300),
    "MP4 in fragments": lambda: repeat_packets(encode("MP4 of AAC"), "mp4", FRAGMENTED, 300),
    "bare AAC": lambda: encode("bare AAC") * 300,
}


@pytest.mark.parametrize("kind", TEN_MINUTES)
def test_refuses_ten_minutes_without_decoding_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = TEN_MINUTES[kind]()
    assert len(data) < LIMITS.reference_max_bytes
    monkeypatch.setattr(np, "concatenate", None)
    with pytest.raises(ApiError) as refusal:
        decode_reference(data, LIMITS)
    assert refusal.value.code == "reference_too_long"


def test_refuses_too_many_packets() -> None:
    """Each packet has one sample: six seconds take 48,000 packets."""
    short = encode_recording(tone(1, 8_000), "mov", "pcm_u8", 8_000, {})
    data = repeat_packets(short, "matroska", {"live": "1"}, 6_000, size=1)
    with pytest.raises(ApiError, match="packets"):
        decode_reference(data, LIMITS)


def corruptions(data: bytes, tries: int) -> Iterator[bytes]:
    """``data`` with its header corrupted by a seeded generator: bits changed, bytes removed or doubled, end cut off."""
    rng = random.Random(len(data))
    header = max(0, data.find(b"moov"))
    for _ in range(tries):
        at = min(header + rng.randrange(700), len(data) - 8)
        corrupt = rng.choice(
            [
                data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :],
                data[:at] + rng.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)]) + data[at + 4 :],
                data[:at] + data[at + rng.randrange(1, 9) :],
                data[:at] + data[at : at + 50] + data[at:],
                data[:at],
            ]
        )
        yield corrupt


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
def test_a_corrupt_header_is_refused_or_decodes_within_bounds(kind: str) -> None:
    assert count_refusals(corruptions(encode(kind, 1.2), 300), LIMITS) > 20


def test_a_browser_recording_is_cloned(client: httpx.Client) -> None:
    for kind in ("WebM of Opus, by a browser as it records", "MP4 of AAC, by a browser as it records"):
        data = base64.b64encode(encode(kind)).decode()
        response = client.post(
            SPEECH, json=speech(ref_audio=f"data:audio/webm;codecs=opus;base64,{data}", ref_text="la la la la la la")
        )
        assert response.status_code == 200, response.text
        assert response.content


def test_a_phone_recording_is_stored_as_a_voice(client: httpx.Client) -> None:
    files = {"audio_sample": ("memo.m4a", encode("M4A of AAC"), "audio/mp4")}
    stored = client.post("/v1/audio/voices", data={"name": "memo", "ref_text": "la la la la la la"}, files=files)
    assert stored.status_code == 200, stored.text
    assert stored.json()["in_context"]
    assert client.post(SPEECH, json=speech(voice="memo")).content
    client.delete("/v1/audio/voices/memo").raise_for_status()


def test_the_error_names_the_form_field_of_a_corrupt_recording(client: httpx.Client) -> None:
    files = {"audio_sample": ("memo.m4a", encode("M4A of AAC")[:60], "audio/mp4")}
    check(client.post("/v1/audio/voices/embedding", files=files), 400, "audio_sample", "invalid_value")
