"""Voices that come with the request."""

from __future__ import annotations

import httpx
import pytest

from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, speech

REFERENCE = data_url(tone(1.6))


def spoken(client: httpx.Client, **fields: object) -> bytes:
    response = client.post(SPEECH, json=speech(**fields))
    assert response.status_code == 200, response.text
    return response.content


def test_a_transcript_makes_it_in_context(client: httpx.Client) -> None:
    in_context = spoken(client, ref_audio=REFERENCE, ref_text="one two three")
    embedding_only = spoken(client, ref_audio=REFERENCE)
    assert in_context != embedding_only
    assert spoken(client, ref_audio=REFERENCE, ref_text="one two three") == in_context


def test_x_vector_only_mode_ignores_the_transcript(client: httpx.Client) -> None:
    alone = spoken(client, ref_audio=REFERENCE)
    assert spoken(client, ref_audio=REFERENCE, ref_text="one two", x_vector_only_mode=True) == alone
    assert spoken(client, ref_audio=REFERENCE, ref_text="  ") == alone


def test_another_recording_is_another_voice(client: httpx.Client) -> None:
    assert spoken(client, ref_audio=REFERENCE) != spoken(client, ref_audio=data_url(tone(2.4)))


def test_a_voice_name_beside_a_reference_is_not_looked_up(client: httpx.Client) -> None:
    assert spoken(client, ref_audio=REFERENCE, voice="nobody") == spoken(client, ref_audio=REFERENCE)


def test_a_named_task_agrees_with_what_is_brought(client: httpx.Client) -> None:
    assert spoken(client, ref_audio=REFERENCE, task_type="Base") == spoken(client, ref_audio=REFERENCE)


@pytest.fixture
def width(client: httpx.Client) -> int:
    """Of the checkpoint's speaker embeddings."""
    (model,) = client.get("/v1/models").json()["data"]
    return int(model["embedding_width"])


def test_a_speaker_embedding_is_a_voice(client: httpx.Client, width: int) -> None:
    one, other = ([value] * width for value in (0.1, -0.1))
    assert spoken(client, speaker_embedding=one) == spoken(client, speaker_embedding=one, voice="alloy")
    assert spoken(client, speaker_embedding=one) != spoken(client, speaker_embedding=other)
    assert spoken(client, speaker_embedding=one, x_vector_only_mode=True) == spoken(client, speaker_embedding=one)


def test_an_embedding_beyond_float32_is_refused(client: httpx.Client, width: int) -> None:
    response = client.post(SPEECH, json=speech(speaker_embedding=[1e39] * width))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "speaker_embedding"


def test_a_clone_streams_what_it_gives_whole(client: httpx.Client) -> None:
    fields = {"ref_audio": REFERENCE, "ref_text": "one two three"}
    assert spoken(client, **fields) == spoken(client, **fields, stream=False)
