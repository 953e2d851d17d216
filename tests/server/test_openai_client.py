"""The openai package used by its documentation: speech and models."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import openai
import pytest

from tests.server.audio_decoding import CONTENT_TYPES, decode_audio
from tests.server.openai_sdk import EXTRA_BODY, REQUEST, Sdk, close_sdk, events_of, resolve, sdk_for, streamed_bytes
from tests.server.serving import SPEECH, Serving, endless, speech


@pytest.mark.parametrize("kind", CONTENT_TYPES)
async def test_every_format_is_playable(sdk: Sdk, kind: str, tmp_path: Path) -> None:
    answer = await resolve(sdk.audio.speech.create(**REQUEST, response_format=kind, extra_body=EXTRA_BODY))
    answer.write_to_file(tmp_path / "speech")
    decoded, rate = decode_audio((tmp_path / "speech").read_bytes(), kind)
    assert len(decoded) > rate
    assert answer.response.headers["content-type"] == CONTENT_TYPES[kind]


async def test_the_default_format_is_mp3(sdk: Sdk) -> None:
    answer = await resolve(sdk.audio.speech.create(**REQUEST, extra_body=EXTRA_BODY))
    decoded, rate = decode_audio(answer.content, "mp3")
    assert len(decoded) > rate


@pytest.mark.parametrize("kind", CONTENT_TYPES)
async def test_a_streaming_response_gives_the_same_bytes(sdk: Sdk, serving: Serving, kind: str) -> None:
    received, headers = await streamed_bytes(sdk, **REQUEST, response_format=kind, extra_body=EXTRA_BODY)
    assert headers["x-channels"] == "1"
    with serving.client() as client:
        assert received == client.post(SPEECH, json=speech(voice="alloy", response_format=kind)).content


async def test_a_stream_can_be_written_to_a_file(sdk: Sdk, tmp_path: Path) -> None:
    answer = sdk.audio.speech.with_streaming_response.create(**REQUEST, response_format="flac", extra_body=EXTRA_BODY)
    if isinstance(sdk, openai.OpenAI):
        with answer as response:
            response.stream_to_file(tmp_path / "speech.flac")
    else:
        async with answer as response:
            await response.stream_to_file(tmp_path / "speech.flac")
    decoded, rate = decode_audio((tmp_path / "speech.flac").read_bytes(), "flac")
    assert len(decoded) > rate


async def test_events_carry_the_same_audio_and_usage(sdk: Sdk) -> None:
    request = {**REQUEST, "response_format": "mp3", "extra_body": EXTRA_BODY}
    file, _ = await streamed_bytes(sdk, **request, stream_format="audio")
    stream, headers = await streamed_bytes(sdk, **request, stream_format="sse")
    *deltas, done = events_of(stream)
    assert headers["content-type"].startswith("text/event-stream")
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == file
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["total_tokens"] == done["usage"]["input_tokens"] + done["usage"]["output_tokens"]


async def test_a_raw_response_has_the_headers(sdk: Sdk) -> None:
    raw = await resolve(
        sdk.audio.speech.with_raw_response.create(
            **REQUEST,
            response_format="pcm",
            extra_body={**EXTRA_BODY, "sample_rate": 8000},
            extra_headers={"X-Request-Id": "mine-1"},
        )
    )
    assert (raw.headers["x-sample-rate"], raw.request_id) == ("8000", "mine-1")
    assert raw.parse().content


async def test_speed_shortens_the_audio(sdk: Sdk) -> None:
    request = {**REQUEST, "response_format": "pcm", "extra_body": EXTRA_BODY}
    whole = await resolve(sdk.audio.speech.create(**request, speed=1.0))
    fast = await resolve(sdk.audio.speech.create(**request, speed=2.0))
    assert len(fast.content) == pytest.approx(len(whole.content) / 2, rel=0.1)


async def test_accepts_instructions(sdk: Sdk) -> None:
    assert (await resolve(sdk.audio.speech.create(**REQUEST, instructions="Calmly.", extra_body=EXTRA_BODY))).content


async def test_a_voice_is_a_name_or_an_object(sdk: Sdk) -> None:
    request = {**REQUEST, "response_format": "pcm", "extra_body": EXTRA_BODY}
    by_name, by_object, other = [
        (await resolve(sdk.audio.speech.create(**{**request, "voice": voice}))).content
        for voice in ("vivian", {"id": "vivian"}, "ryan")
    ]
    assert by_name == by_object != other


@pytest.mark.parametrize("model", ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15", "pocket"])
async def test_openai_model_names_select_the_served_model(sdk: Sdk, model: str) -> None:
    assert (await resolve(sdk.audio.speech.create(**{**REQUEST, "model": model}, extra_body=EXTRA_BODY))).content


async def test_one_client_runs_concurrent_requests(serving: Serving) -> None:
    client = sdk_for("async", serving)
    calls = [client.audio.speech.create(**REQUEST, response_format="pcm", extra_body=EXTRA_BODY) for _ in range(4)]
    first, *others = [answer.content for answer in await asyncio.gather(*calls)]
    assert all(other == first for other in others)
    await close_sdk(client)


async def test_a_client_may_close_a_stream_early(sdk: Sdk, serving: Serving) -> None:
    body = endless()
    request = {
        **REQUEST,
        "response_format": body.pop("response_format"),
        "input": body.pop("input"),
        "extra_body": body,
    }
    answer = sdk.audio.speech.with_streaming_response.create(**request)
    if isinstance(sdk, openai.OpenAI):
        with answer as response:
            assert next(response.iter_bytes(1024))
    else:
        async with answer as response:
            assert await anext(response.iter_bytes(1024))
    serving.until_idle()


async def test_models_are_listed_and_retrieved(sdk: Sdk) -> None:
    page = await resolve(sdk.models.list())
    (model,) = page.data
    assert (model.id, model.object) == ("pocket", "model")
    for name in ("pocket", "tts-1"):
        assert (await resolve(sdk.models.retrieve(name))).id == "pocket"
