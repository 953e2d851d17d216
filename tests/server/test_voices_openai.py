"""Custom voices as users of the openai package make and delete them."""

from __future__ import annotations

import openai
import pytest

from tests.server.openai_sdk import EXTRA_BODY, REQUEST, Sdk, resolve
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, Serving, speech

SAMPLE = ("sample.wav", wav(tone(1.6)), "audio/wav")
MADE = {"audio_sample": SAMPLE, "consent": "cons_1"}


async def test_a_voice_is_made_spoken_with_and_deleted(sdk: Sdk, serving: Serving) -> None:
    voice = await resolve(sdk.audio.voices.create(name="anna", **MADE))
    assert (voice.id, voice.name, voice.object, voice.type) == ("anna", "anna", "audio.voice", "audio_sample")
    assert voice.created_at > 1_700_000_000
    asked = {**REQUEST, "voice": {"id": voice.id}, "response_format": "pcm", "extra_body": EXTRA_BODY}
    heard = (await resolve(sdk.audio.speech.create(**asked))).content
    with serving.client() as client:
        assert heard == client.post(SPEECH, json=speech(voice="anna")).content
    gone = await resolve(sdk.audio.voices.delete(voice.id))
    assert (gone.id, gone.object, gone.deleted) == ("anna", "audio.voice.deleted", True)
    with pytest.raises(openai.NotFoundError):
        await resolve(sdk.audio.voices.delete(voice.id))


async def test_a_transcript_goes_along_in_the_extra_body(sdk: Sdk) -> None:
    extra = {"ref_text": "one two three"}
    voice = await resolve(sdk.audio.voices.create(name="in-context", **MADE, extra_body=extra))
    try:
        assert voice.model_extra["in_context"]
    finally:
        await resolve(sdk.audio.voices.delete(voice.id))


async def test_refusals_are_the_errors_of_the_package(sdk: Sdk) -> None:
    with pytest.raises(openai.ConflictError) as taken:
        await resolve(sdk.audio.voices.create(name="serena", **MADE))
    assert (taken.value.code, taken.value.param) == ("voice_exists", "name")
    with pytest.raises(openai.BadRequestError) as prompted:
        await resolve(sdk.audio.voices.create(name="bert", prompt="A calm voice.", type="prompt"))
    assert (prompted.value.code, prompted.value.param) == ("not_supported", "type")
    with pytest.raises(openai.BadRequestError) as built_in:
        await resolve(sdk.audio.voices.delete("serena"))
    assert built_in.value.code == "voice_built_in"
