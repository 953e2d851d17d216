"""Recordings in the forms of browsers and telephones, which FFmpeg reads: the same bounds as for any other."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from server.errors import ApiError
from server.references.decoders import decode_reference
from server.settings import Limits
from tests.server.containers import FRAGMENTED, KINDS, filmed, recorded, repeated
from tests.server.serving import SPEECH, speech
from tests.server.spoilt import refused
from tests.server.test_bad_input import check

LIMITS = Limits()
ALAC = ("ipod", "alac", 16_000, {})


def tone(seconds: float, rate: int, peak: float = 0.4) -> NDArray[np.float32]:
    time = np.arange(int(seconds * rate)) / rate
    return (peak * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


def made(kind: str, seconds: float = 2.0) -> bytes:
    container, codec, rate, options = KINDS[kind]
    return recorded(tone(seconds, rate), container, codec, rate, options)


def pitch(samples: NDArray[np.float32], rate: int) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax() * rate / len(samples))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_said_is_heard(kind: str) -> None:
    reference = decode_reference(made(kind), LIMITS)
    assert reference.rate == KINDS[kind][2]
    assert reference.samples.dtype == np.float32
    assert abs(len(reference.samples) / reference.rate - 2) < 0.1
    assert pitch(reference.samples, reference.rate) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("kind", ["WebM of Opus", "M4A of ALAC", "QuickTime of samples"])
def test_channels_are_mixed_down(kind: str) -> None:
    container, codec, rate, options = KINDS[kind]
    both = np.stack([tone(2, rate), np.zeros(2 * rate, np.float32)])
    reference = decode_reference(recorded(both, container, codec, rate, options), LIMITS)
    assert float(np.abs(reference.samples).max()) == pytest.approx(0.2, abs=0.03)


def test_of_a_film_the_sound_is_taken() -> None:
    reference = decode_reference(filmed(tone(2, 48_000)), LIMITS)
    assert pitch(reference.samples, reference.rate) == pytest.approx(440, abs=2)


def test_a_recording_that_breaks_off_is_heard_as_far_as_it_goes() -> None:
    data = made("bare AAC", 3)
    reference = decode_reference(data[: len(data) * 2 // 3], LIMITS)
    assert 1.5 < len(reference.samples) / reference.rate < 2.5


def bad_floats(value: float) -> Callable[[], bytes]:
    samples = tone(2, 48_000)
    samples[48_000] = value
    return lambda: recorded(samples, "mov", "pcm_f32le", 48_000, {})


def claiming(data: bytes, old: bytes, new: bytes) -> bytes:
    """``data`` with something else in its last ``old``."""
    before, found, after = data.rpartition(old)
    assert found
    return before + new + after


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "too short": (lambda: made("WebM of Opus", 0.9), "reference_too_short"),
    "too long": (lambda: made("M4A of AAC", 30.5), "reference_too_long"),
    "half a header": (lambda: made("MP4 of AAC")[:60], "invalid_value"),
    "no header at its end": (lambda: made("MP4 of AAC")[:-400], "invalid_value"),
    "silent": (lambda: recorded(np.zeros(96_000), "webm", "libopus", 48_000, {}), "reference_silent"),
    "not a number": (bad_floats(np.nan), "invalid_value"),
    "infinite": (bad_floats(np.inf), "invalid_value"),
    "not normalised": (bad_floats(1000.0), "invalid_value"),
    "pictures alone": (lambda: filmed(None), "invalid_value"),
    "a codec that is not taken": (lambda: recorded(tone(2, 48_000), "mov", "pcm_alaw", 48_000, {}), "invalid_value"),
    "rates that change": (
        lambda: made("bare AAC") + recorded(tone(2, 48_000), "adts", "aac", 48_000, {}),
        "invalid_value",
    ),
    "frames that claim to be enormous": (
        lambda: claiming(recorded(tone(2, 16_000), *ALAC), (4096).to_bytes(4), (2**24).to_bytes(4)),
        "reference_too_short",
    ),
    "nothing but a beginning": (lambda: b"\x1aE\xdf\xa3", "invalid_value"),
    "a playlist of this machine's files": (lambda: b"#EXTM3U\n#EXTINF:9,\nfile:///etc/hostname\n", "invalid_value"),
    "a list of this machine's files": (lambda: b"ffconcat version 1.0\nfile /etc/hostname\n", "invalid_value"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", REFUSED)
def test_a_recording_that_cannot_be_cloned_is_refused(case: str) -> None:
    make, code = REFUSED[case]
    with pytest.raises(ApiError) as refusal:
        decode_reference(make(), LIMITS)
    assert (refusal.value.status, refusal.value.param, refusal.value.code) == (400, "ref_audio", code)


LONG: dict[str, Callable[[], bytes]] = {
    "WebM without a length": lambda: repeated(made("WebM of Opus"), "webm", {"live": "1"}, 300),
    "WebM": lambda: repeated(made("WebM of Opus"), "webm", {}, 300),
    "MP4": lambda: repeated(made("MP4 of AAC"), "mp4", {}, 300),
    "MP4 in fragments": lambda: repeated(made("MP4 of AAC"), "mp4", FRAGMENTED, 300),
    "bare AAC": lambda: made("bare AAC") * 300,
}


@pytest.mark.parametrize("kind", LONG)
def test_ten_minutes_are_refused_and_not_decoded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = LONG[kind]()
    assert len(data) < LIMITS.reference_max_bytes
    monkeypatch.setattr(np, "concatenate", None)
    with pytest.raises(ApiError) as refusal:
        decode_reference(data, LIMITS)
    assert refusal.value.code == "reference_too_long"


def test_packets_without_end_are_refused() -> None:
    """Each is a sample long: six seconds in fifty thousand of them."""
    short = recorded(tone(1, 8_000), "mov", "pcm_u8", 8_000, {})
    data = repeated(short, "matroska", {"live": "1"}, 6_000, size=1)
    with pytest.raises(ApiError, match="packets"):
        decode_reference(data, LIMITS)


def damaged(data: bytes, tries: int) -> Iterator[bytes]:
    """``data`` with its header spoilt at random, the same way each time: changed, left out, doubled, cut off."""
    moments = random.Random(len(data))
    header = max(0, data.find(b"moov"))
    for _ in range(tries):
        at = min(header + moments.randrange(700), len(data) - 8)
        spoilt = moments.choice(
            [
                data[:at] + bytes([data[at] ^ (1 << moments.randrange(8))]) + data[at + 1 :],
                data[:at] + moments.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)]) + data[at + 4 :],
                data[:at] + data[at + moments.randrange(1, 9) :],
                data[:at] + data[at : at + 50] + data[at:],
                data[:at],
            ]
        )
        yield spoilt


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
def test_a_corrupt_header_is_a_recording_within_bounds_or_a_refusal(kind: str) -> None:
    assert refused(damaged(made(kind, 1.2), 300), LIMITS) > 20


def test_a_browsers_recording_is_cloned(client: httpx.Client) -> None:
    for kind in ("WebM of Opus, by a browser as it records", "MP4 of AAC, by a browser as it records"):
        data = base64.b64encode(made(kind)).decode()
        spoken = client.post(SPEECH, json=speech(ref_audio=f"data:audio/webm;codecs=opus;base64,{data}", ref_text="la"))
        assert spoken.status_code == 200, spoken.text
        assert spoken.content


def test_a_telephones_recording_is_stored_as_a_voice(client: httpx.Client) -> None:
    files = {"audio_sample": ("memo.m4a", made("M4A of AAC"), "audio/mp4")}
    stored = client.post("/v1/audio/voices", data={"name": "memo", "ref_text": "la"}, files=files)
    assert stored.status_code == 200, stored.text
    assert stored.json()["in_context"]
    assert client.post(SPEECH, json=speech(voice="memo")).content
    client.delete("/v1/audio/voices/memo").raise_for_status()


def test_of_a_damaged_one_the_form_is_told_in_its_own_words(client: httpx.Client) -> None:
    files = {"audio_sample": ("memo.m4a", made("M4A of AAC")[:60], "audio/mp4")}
    check(client.post("/v1/audio/voices/embedding", files=files), 400, "audio_sample", "invalid_value")
