"""Formats, speeds and sample rates over HTTP."""

from __future__ import annotations

import io

import httpx
import numpy as np
import pytest
import soundfile as sf

from tests.server.audio_decoding import CONTENT_TYPES, decode_audio, max_padding
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed

CODEC_FRAME = 0.08


def seconds(client: httpx.Client) -> float:
    """The duration of the speech that these tests request, in seconds."""
    return len(client.post(SPEECH, json=speech()).content) / 2 / 24_000


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_a_streamed_file_is_valid_to_its_end(client: httpx.Client, kind: str) -> None:
    with streamed(client, speech(response_format=kind)) as response:
        data = response.read()
    assert response.headers["content-type"] == CONTENT_TYPES[kind]
    assert response.headers["transfer-encoding"] == "chunked"
    assert (response.headers["x-sample-rate"], response.headers["x-channels"]) == ("24000", "1")
    decoded, rate = decode_audio(data, kind)
    assert rate == 24_000
    assert 0 <= len(decoded) / rate - seconds(client) <= max_padding(kind, rate) / rate
    assert np.abs(decoded).max() > 0


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_a_complete_file_has_its_length_and_the_same_duration(client: httpx.Client, kind: str) -> None:
    answer = client.post(SPEECH, json=speech(response_format=kind, stream=False))
    assert answer.headers["content-type"] == CONTENT_TYPES[kind]
    assert int(answer.headers["content-length"]) == len(answer.content)
    decoded, rate = decode_audio(answer.content, kind)
    assert 0 <= len(decoded) / rate - seconds(client) <= (max_padding("aac", rate) / rate if kind == "aac" else 0)


def test_the_default_format_is_mp3(client: httpx.Client) -> None:
    answer = client.post(SPEECH, json=speech(response_format=None, stream=False))
    assert answer.headers["content-type"] == "audio/mpeg"
    assert sf.info(io.BytesIO(answer.content)).format == "MP3"


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_the_seed_determines_the_bytes_of_every_format(client: httpx.Client, kind: str) -> None:
    body = speech(response_format=kind, speed=1.2, sample_rate=16_000)
    assert client.post(SPEECH, json=body).content == client.post(SPEECH, json=body).content


@pytest.mark.parametrize("kind", ["mp3", "opus", "pcm"])
@pytest.mark.parametrize("speed", [0.25, 0.8, 4])
@pytest.mark.parametrize("stream", [False, True])
def test_speed_changes_the_duration(client: httpx.Client, kind: str, speed: float, stream: bool) -> None:
    answer = client.post(SPEECH, json=speech(response_format=kind, speed=speed, stream=stream))
    decoded, rate = decode_audio(answer.content, kind)
    longer = len(decoded) / rate - seconds(client) / speed
    assert -CODEC_FRAME < longer < CODEC_FRAME + max_padding(kind, rate) / rate


def test_speed_one_keeps_every_sample(client: httpx.Client) -> None:
    plain, asked = (client.post(SPEECH, json=speech(**fields)).content for fields in ({}, {"speed": 1.0}))
    assert plain == asked


@pytest.mark.parametrize("kind", ["mp3", "flac", "wav", "pcm"])
@pytest.mark.parametrize("requested", [8_000, 44_100])
def test_the_sample_rate_is_applied_and_reported(client: httpx.Client, kind: str, requested: int) -> None:
    with streamed(client, speech(response_format=kind, sample_rate=requested)) as response:
        data = response.read()
    assert response.headers["x-sample-rate"] == str(requested)
    decoded, rate = decode_audio(data, kind, requested)
    assert rate == requested
    assert 0 <= len(decoded) / rate - seconds(client) <= max_padding(kind, rate) / rate + 1e-3


def test_opus_uses_the_next_higher_supported_rate(client: httpx.Client) -> None:
    answer = client.post(SPEECH, json=speech(response_format="opus", sample_rate=44_100))
    assert answer.headers["x-sample-rate"] == "48000"
    assert decode_audio(answer.content, "opus")[1] == 48_000


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_the_first_audio_is_sent_before_the_last_frame_is_generated(
    serving: Serving, client: httpx.Client, kind: str
) -> None:
    with streamed(client, endless(response_format=kind, speed=1.5, sample_rate=16_000)) as response:
        pieces = response.iter_raw()
        for _ in range(4):
            assert next(pieces)
        assert busy(serving.stats()) > 0
    serving.until_idle()
