"""The openai package, as its users use it: speech and models."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import openai
import pytest

from tests.server.hearing import CONTENT_TYPES, hear
from tests.server.openai_sdk import ASKED, OURS, Sdk, closed, events_of, sdk_for, settled, streamed_bytes
from tests.server.serving import SPEECH, Serving, endless, speech


@pytest.mark.parametrize("kind", CONTENT_TYPES)
async def test_every_format_is_a_file_that_plays(sdk: Sdk, kind: str, tmp_path: Path) -> None:
    answer = await settled(sdk.audio.speech.create(**ASKED, response_format=kind, extra_body=OURS))
    answer.write_to_file(tmp_path / "speech")
    heard, rate = hear((tmp_path / "speech").read_bytes(), kind)
    assert len(heard) > rate
    assert answer.response.headers["content-type"] == CONTENT_TYPES[kind]


async def test_without_a_format_the_client_gets_the_mp3_it_expects(sdk: Sdk) -> None:
    answer = await settled(sdk.audio.speech.create(**ASKED, extra_body=OURS))
    heard, rate = hear(answer.content, "mp3")
    assert len(heard) > rate


@pytest.mark.parametrize("kind", CONTENT_TYPES)
async def test_a_streaming_response_gives_the_same_bytes(sdk: Sdk, serving: Serving, kind: str) -> None:
    heard, headers = await streamed_bytes(sdk, **ASKED, response_format=kind, extra_body=OURS)
    assert headers["x-channels"] == "1"
    with serving.client() as client:
        assert heard == client.post(SPEECH, json=speech(voice="alloy", response_format=kind)).content


async def test_a_stream_goes_straight_into_a_file(sdk: Sdk, tmp_path: Path) -> None:
    answer = sdk.audio.speech.with_streaming_response.create(**ASKED, response_format="flac", extra_body=OURS)
    if isinstance(sdk, openai.OpenAI):
        with answer as response:
            response.stream_to_file(tmp_path / "speech.flac")
    else:
        async with answer as response:
            await response.stream_to_file(tmp_path / "speech.flac")
    heard, rate = hear((tmp_path / "speech.flac").read_bytes(), "flac")
    assert len(heard) > rate


async def test_events_carry_the_same_file_and_its_usage(sdk: Sdk) -> None:
    asked = {**ASKED, "response_format": "mp3", "extra_body": OURS}
    file, _ = await streamed_bytes(sdk, **asked, stream_format="audio")
    told, headers = await streamed_bytes(sdk, **asked, stream_format="sse")
    *deltas, done = events_of(told)
    assert headers["content-type"].startswith("text/event-stream")
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == file
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["total_tokens"] == done["usage"]["input_tokens"] + done["usage"]["output_tokens"]


async def test_a_raw_response_tells_its_headers(sdk: Sdk) -> None:
    raw = await settled(
        sdk.audio.speech.with_raw_response.create(
            **ASKED,
            response_format="pcm",
            extra_body={**OURS, "sample_rate": 8000},
            extra_headers={"X-Request-Id": "mine-1"},
        )
    )
    assert (raw.headers["x-sample-rate"], raw.request_id) == ("8000", "mine-1")
    assert raw.parse().content


async def test_speed_shortens_what_is_said(sdk: Sdk) -> None:
    asked = {**ASKED, "response_format": "pcm", "extra_body": OURS}
    whole = await settled(sdk.audio.speech.create(**asked, speed=1.0))
    fast = await settled(sdk.audio.speech.create(**asked, speed=2.0))
    assert len(fast.content) == pytest.approx(len(whole.content) / 2, rel=0.1)


async def test_instructions_are_taken(sdk: Sdk) -> None:
    assert (await settled(sdk.audio.speech.create(**ASKED, instructions="Calmly.", extra_body=OURS))).content


async def test_a_voice_is_a_name_or_an_object(sdk: Sdk) -> None:
    asked = {**ASKED, "response_format": "pcm", "extra_body": OURS}
    by_name, by_object, other = [
        (await settled(sdk.audio.speech.create(**{**asked, "voice": voice}))).content
        for voice in ("vivian", {"id": "vivian"}, "ryan")
    ]
    assert by_name == by_object != other


@pytest.mark.parametrize("model", ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15", "pocket"])
async def test_every_model_of_openai_means_the_one_here(sdk: Sdk, model: str) -> None:
    assert (await settled(sdk.audio.speech.create(**{**ASKED, "model": model}, extra_body=OURS))).content


async def test_one_client_speaks_several_texts_at_once(serving: Serving) -> None:
    client = sdk_for("async", serving)
    asked = [client.audio.speech.create(**ASKED, response_format="pcm", extra_body=OURS) for _ in range(4)]
    first, *others = [answer.content for answer in await asyncio.gather(*asked)]
    assert all(other == first for other in others)
    await closed(client)


async def test_a_listener_may_leave(sdk: Sdk, serving: Serving) -> None:
    body = endless()
    asked = {**ASKED, "response_format": body.pop("response_format"), "input": body.pop("input"), "extra_body": body}
    answer = sdk.audio.speech.with_streaming_response.create(**asked)
    if isinstance(sdk, openai.OpenAI):
        with answer as response:
            assert next(response.iter_bytes(1024))
    else:
        async with answer as response:
            assert await anext(response.iter_bytes(1024))
    serving.until_idle()


async def test_models_are_listed_and_found(sdk: Sdk) -> None:
    page = await settled(sdk.models.list())
    (model,) = page.data
    assert (model.id, model.object) == ("pocket", "model")
    for name in ("pocket", "tts-1"):
        assert (await settled(sdk.models.retrieve(name))).id == "pocket"
