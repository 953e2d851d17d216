"""The openai package, as its users use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import openai
import pytest

from tests.server.hearing import hear
from tests.server.serving import PATIENCE, SPEECH, Serving, endless, speech

ASKED = {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "response_format": "wav"}
OURS = {"seed": 7, "max_new_tokens": 24}


@pytest.fixture
def sdk(serving: Serving) -> Iterator[openai.OpenAI]:
    url = f"{serving.url}/v1"
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
async def async_sdk(serving: Serving) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"{serving.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE) as client:
        yield client


def test_create_gives_a_playable_file(sdk: openai.OpenAI, tmp_path: Path) -> None:
    answer = sdk.audio.speech.create(**ASKED, instructions="Calmly.", speed=1.0, extra_body=OURS)
    answer.write_to_file(tmp_path / "speech.wav")
    assert (tmp_path / "speech.wav").read_bytes()[:4] == b"RIFF"


def test_without_a_format_the_client_gets_the_mp3_it_expects(sdk: openai.OpenAI, tmp_path: Path) -> None:
    asked = {name: value for name, value in ASKED.items() if name != "response_format"}
    answer = sdk.audio.speech.create(**asked, speed=1.5, extra_body=OURS)
    answer.write_to_file(tmp_path / "speech.mp3")
    heard, rate = hear((tmp_path / "speech.mp3").read_bytes(), "mp3")
    assert rate == 24_000
    assert len(heard) > 0


def test_a_streaming_response_gives_the_same_bytes(sdk: openai.OpenAI, serving: Serving) -> None:
    asked = {**ASKED, "response_format": "pcm"}
    with sdk.audio.speech.with_streaming_response.create(**asked, extra_body=OURS) as response:
        assert response.headers["x-channels"] == "1"
        heard = b"".join(response.iter_bytes())
    with serving.client() as client:
        assert heard == client.post(SPEECH, json=speech(voice="alloy")).content


async def test_the_async_client_hears_the_beginning_and_may_leave(
    async_sdk: openai.AsyncOpenAI, serving: Serving
) -> None:
    body = endless()
    asked = {**ASKED, "response_format": "pcm", "input": body.pop("input")}
    body.pop("response_format")
    async with async_sdk.audio.speech.with_streaming_response.create(**asked, extra_body=body) as response:
        assert await anext(response.iter_bytes(1024))
    serving.until_idle()


def test_an_unknown_voice_is_a_not_found_error(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        sdk.audio.speech.create(**{**ASKED, "voice": "nobody"})
    assert (error.value.code, error.value.param) == ("voice_not_found", "voice")
    assert "vivian" in error.value.message


def test_an_unknown_model_is_a_not_found_error(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        sdk.audio.speech.create(**{**ASKED, "model": "tts-9"})
    assert error.value.code == "model_not_found"


def test_a_bad_value_is_a_bad_request_error(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        sdk.audio.speech.create(**ASKED, speed=9.0)
    assert (error.value.param, error.value.type) == ("speed", "invalid_request_error")


def test_models_are_listed_and_found(sdk: openai.OpenAI) -> None:
    (model,) = sdk.models.list().data
    assert model.id == "pocket"
    assert sdk.models.retrieve("pocket").id == sdk.models.retrieve("tts-1").id == "pocket"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("nothing")
