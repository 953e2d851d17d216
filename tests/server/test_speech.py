"""``POST /v1/audio/speech`` over a real socket."""

from __future__ import annotations

import io
import struct
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import soundfile as sf

from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed

FRAME_BYTES = 2 * 1920


def test_audio_is_streamed_in_chunks_with_its_headers(client: httpx.Client) -> None:
    with streamed(client, speech()) as response:
        chunks = list(response.iter_raw())
    assert response.status_code == 200
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.headers["content-type"] == "audio/pcm"
    assert response.headers["x-sample-rate"] == "24000"
    assert response.headers["x-channels"] == "1"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert len(chunks) > 1
    assert len(b"".join(chunks)) % FRAME_BYTES == 0


def test_a_complete_response_has_a_length_and_the_streamed_samples(client: httpx.Client) -> None:
    whole = client.post(SPEECH, json=speech(stream=False))
    with streamed(client, speech()) as response:
        pieces = response.read()
    assert int(whole.headers["content-length"]) == len(whole.content)
    assert whole.headers["x-sample-rate"] == "24000"
    assert whole.content == pieces
    assert np.abs(np.frombuffer(pieces, "<i2")).max() > 0


def test_the_seed_determines_the_audio(client: httpx.Client) -> None:
    first, again, other = (client.post(SPEECH, json=speech(seed=seed)).content for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_streamed_wav_declares_no_size(client: httpx.Client) -> None:
    with streamed(client, speech(response_format="wav")) as response:
        data = response.read()
    assert response.headers["content-type"] == "audio/wav"
    assert struct.unpack_from("<I", data, 4) == struct.unpack_from("<I", data, 40) == (0xFFFFFFFF,)
    assert data[44:] == client.post(SPEECH, json=speech()).content
    decoded, rate = sf.read(io.BytesIO(data), dtype="int16")
    assert rate == 24_000
    assert decoded.tobytes() == data[44:]


def test_a_complete_wav_declares_its_sizes(client: httpx.Client) -> None:
    data = client.post(SPEECH, json=speech(response_format="wav", stream=False)).content
    assert struct.unpack_from("<I", data, 4) == (len(data) - 8,)
    assert struct.unpack_from("<I", data, 40) == (len(data) - 44,)
    assert sf.info(io.BytesIO(data)).frames == (len(data) - 44) // 2


def test_the_first_chunk_is_sent_before_the_last_frame_is_generated(serving: Serving, client: httpx.Client) -> None:
    with streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        assert busy(serving.stats()) > 0
        assert next(pieces)
    serving.until_idle()


def test_a_client_that_does_not_read_blocks_no_other(serving: Serving, client: httpx.Client) -> None:
    alone = client.post(SPEECH, json=speech()).content
    with serving.send_speech(endless(), "idler", window=4096) as unread:
        assert unread.recv(12) == b"HTTP/1.1 200"
        serving.until_engine_idle()
        assert busy(serving.stats()) > 0
        assert client.post(SPEECH, json=speech()).content == alone
        assert busy(serving.stats()) > 0
    serving.until_idle()


def test_concurrent_requests_get_the_same_audio_as_alone(serving: Serving, client: httpx.Client) -> None:
    bodies = [
        speech(seed=number, voice=voice, stream=bool(number % 2), max_new_tokens=10 + 3 * number)
        for number, voice in enumerate(["ryan", "vivian", "serena"] * 4)
    ]
    alone = [client.post(SPEECH, json=body).content for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(lambda body: client.post(SPEECH, json=body).content, bodies))
    assert together == alone
    serving.until_idle()


def test_max_new_tokens_of_n_gives_at_most_n_minus_one_frames(client: httpx.Client) -> None:
    assert len(client.post(SPEECH, json=endless(max_new_tokens=5)).content) == 4 * FRAME_BYTES


def test_top_level_fields_override_extra_params(client: httpx.Client) -> None:
    nested = client.post(SPEECH, json=endless(max_new_tokens=None, extra_params={"max_new_tokens": 4})).content
    assert len(nested) == 3 * FRAME_BYTES
    both = client.post(SPEECH, json=endless(max_new_tokens=3, extra_params={"max_new_tokens": 9})).content
    assert len(both) == 2 * FRAME_BYTES


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"voice": "Vivian"}, {"voice": "VIVIAN"}),
        ({"voice": "vivian"}, {"voice": {"id": "vivian"}}),
        ({"voice": "alloy"}, {"voice": "vivian"}),
        ({"voice": "Nova"}, {"voice": "ryan"}),
        ({"voice": "echo"}, {"voice": "serena"}),
        ({"voice": "cedar"}, {}),
        ({}, {"voice": "serena"}),
        ({}, {"model": "tts-1"}),
        ({}, {"model": "pocket"}),
        ({}, {"language": "AUTO"}),
        ({"language": "english"}, {"language": "English"}),
        ({}, {"instructions": None, "seed": 7, "task_type": "CustomVoice"}),
        ({}, {"lang_code": "a", "normalization_options": {}, "extra_params": {"stream_options": 1}}),
        ({}, {"initial_codec_chunk_frames": 4}),
        ({}, {"non_streaming_mode": True}),
    ],
)
def test_equivalent_requests_give_the_same_audio(client: httpx.Client, one: dict, other: dict) -> None:
    first, second = (client.post(SPEECH, json=speech(**fields)) for fields in (one, other))
    assert first.status_code == second.status_code == 200, (first.text, second.text)
    assert first.content == second.content


@pytest.mark.parametrize(
    "fields", [{"voice": "ryan"}, {"language": "german"}, {"non_streaming_mode": False}, {"top_k": 1}]
)
def test_each_field_changes_the_audio(client: httpx.Client, fields: dict) -> None:
    assert client.post(SPEECH, json=speech(**fields)).content != client.post(SPEECH, json=speech()).content
