"""Custom voices through the openai package."""

from __future__ import annotations

import openai
import pytest

from tests.server.openai_sdk import EXTRA_BODY, REQUEST, Sdk, resolve
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, Serving, speech

SAMPLE = ("sample.wav", wav(tone(1.6)), "audio/wav")
VOICE = {"audio_sample": SAMPLE, "consent": "cons_1"}


async def test_creates_uses_and_deletes_a_voice(sdk: Sdk, serving: Serving) -> None:
    voice = await resolve(sdk.audio.voices.create(name="anna", **VOICE))
    assert (voice.id, voice.name, voice.object, voice.type) == ("anna", "anna", "audio.voice", "audio_sample")
    assert voice.created_at > 1_700_000_000
    request = {**REQUEST, "voice": {"id": voice.id}, "response_format": "pcm", "extra_body": EXTRA_BODY}
    audio = (await resolve(sdk.audio.speech.create(**request))).content
    with serving.client() as client:
        assert audio == client.post(SPEECH, json=speech(voice="anna")).content
    deleted = await resolve(sdk.audio.voices.delete(voice.id))
    assert (deleted.id, deleted.object, deleted.deleted) == ("anna", "audio.voice.deleted", True)
    with pytest.raises(openai.NotFoundError):
        await resolve(sdk.audio.voices.delete(voice.id))


async def test_accepts_a_transcript_in_the_extra_body(sdk: Sdk) -> None:
    extra = {"ref_text": "one two three"}
    voice = await resolve(sdk.audio.voices.create(name="in-context", **VOICE, extra_body=extra))
    try:
        assert voice.model_extra["in_context"]
    finally:
        await resolve(sdk.audio.voices.delete(voice.id))


async def test_refusals_are_exceptions_of_the_package(sdk: Sdk) -> None:
    with pytest.raises(openai.ConflictError) as taken:
        await resolve(sdk.audio.voices.create(name="serena", **VOICE))
    assert (taken.value.code, taken.value.param) == ("voice_exists", "name")
    with pytest.raises(openai.BadRequestError) as prompted:
        await resolve(sdk.audio.voices.create(name="bert", prompt="A calm voice.", type="prompt"))
    assert (prompted.value.code, prompted.value.param) == ("not_supported", "type")
    with pytest.raises(openai.BadRequestError) as built_in:
        await resolve(sdk.audio.voices.delete("serena"))
    assert built_in.value.code == "voice_built_in"
