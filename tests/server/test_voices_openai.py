"""Custom voices as users of the openai package make and delete them."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.server.recordings import tone, wav
from tests.server.serving import PATIENCE, SPEECH, Serving, speech

pytestmark = pytest.mark.skipif(
    not hasattr(openai.resources.audio.Audio, "voices"), reason="this openai package has no voices"
)

SAMPLE = ("sample.wav", wav(tone(1.6)), "audio/wav")
OURS = {"seed": 7, "max_new_tokens": 24}


@pytest.fixture
def sdk(serving: Serving) -> Iterator[openai.OpenAI]:
    url = f"{serving.url}/v1"
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE) as client:
        yield client


def test_a_voice_is_made_spoken_with_and_deleted(sdk: openai.OpenAI, serving: Serving) -> None:
    voice = sdk.audio.voices.create(name="anna", audio_sample=SAMPLE, consent="cons_1")
    assert (voice.id, voice.name, voice.object, voice.type) == ("anna", "anna", "audio.voice", "audio_sample")
    assert voice.created_at > 1_700_000_000
    asked = {"model": "tts-1", "input": "Hello there.", "response_format": "pcm", "extra_body": OURS}
    heard = sdk.audio.speech.create(voice={"id": voice.id}, **asked).content
    with serving.client() as client:
        assert heard == client.post(SPEECH, json=speech(voice="anna")).content
    gone = sdk.audio.voices.delete(voice.id)
    assert (gone.id, gone.object, gone.deleted) == ("anna", "audio.voice.deleted", True)
    with pytest.raises(openai.NotFoundError):
        sdk.audio.voices.delete(voice.id)


def test_a_transcript_goes_along_in_the_extra_body(sdk: openai.OpenAI) -> None:
    voice = sdk.audio.voices.create(
        name="in-context", audio_sample=SAMPLE, consent="cons_1", extra_body={"ref_text": "one two three"}
    )
    try:
        assert voice.model_extra is not None
        assert voice.model_extra["in_context"]
    finally:
        sdk.audio.voices.delete(voice.id)


async def test_the_async_client_does_the_same(serving: Serving) -> None:
    url = f"{serving.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE) as client:
        voice = await client.audio.voices.create(name="bert", audio_sample=SAMPLE, consent="cons_1")
        assert (await client.audio.voices.delete(voice.id)).deleted


def test_refusals_are_the_errors_of_the_package(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.ConflictError) as taken:
        sdk.audio.voices.create(name="serena", audio_sample=SAMPLE, consent="cons_1")
    assert (taken.value.code, taken.value.param) == ("voice_exists", "name")
    with pytest.raises(openai.BadRequestError) as prompted:
        sdk.audio.voices.create(name="bert", prompt="A calm voice.", type="prompt")
    assert (prompted.value.code, prompted.value.param) == ("not_supported", "type")
    with pytest.raises(openai.BadRequestError) as built_in:
        sdk.audio.voices.delete("serena")
    assert built_in.value.code == "voice_built_in"
