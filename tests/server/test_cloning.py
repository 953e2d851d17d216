"""Voice cloning from references in the request."""

from __future__ import annotations

import httpx
import pytest

from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, speech

REFERENCE = data_url(tone(1.6))


def synthesize(client: httpx.Client, **fields: object) -> bytes:
    response = client.post(SPEECH, json=speech(**fields))
    assert response.status_code == 200, response.text
    return response.content


def test_a_transcript_enables_in_context_cloning(client: httpx.Client) -> None:
    in_context = synthesize(client, ref_audio=REFERENCE, ref_text="one two three")
    embedding_only = synthesize(client, ref_audio=REFERENCE)
    assert in_context != embedding_only
    assert synthesize(client, ref_audio=REFERENCE, ref_text="one two three") == in_context


def test_x_vector_only_mode_ignores_the_transcript(client: httpx.Client) -> None:
    alone = synthesize(client, ref_audio=REFERENCE)
    assert synthesize(client, ref_audio=REFERENCE, ref_text="one two", x_vector_only_mode=True) == alone
    assert synthesize(client, ref_audio=REFERENCE, ref_text="  ") == alone


def test_another_recording_gives_another_voice(client: httpx.Client) -> None:
    assert synthesize(client, ref_audio=REFERENCE) != synthesize(client, ref_audio=data_url(tone(2.4)))


def test_the_voice_name_is_ignored_if_a_reference_is_given(client: httpx.Client) -> None:
    assert synthesize(client, ref_audio=REFERENCE, voice="nobody") == synthesize(client, ref_audio=REFERENCE)


def test_accepts_the_task_type_that_matches_the_fields(client: httpx.Client) -> None:
    assert synthesize(client, ref_audio=REFERENCE, task_type="Base") == synthesize(client, ref_audio=REFERENCE)


@pytest.fixture
def embedding_width(client: httpx.Client) -> int:
    """The width of the checkpoint's speaker embeddings."""
    (model,) = client.get("/v1/models").json()["data"]
    return int(model["embedding_width"])


def test_a_speaker_embedding_gives_a_voice(client: httpx.Client, embedding_width: int) -> None:
    one, other = ([value] * embedding_width for value in (0.1, -0.1))
    assert synthesize(client, speaker_embedding=one) == synthesize(client, speaker_embedding=one, voice="alloy")
    assert synthesize(client, speaker_embedding=one) != synthesize(client, speaker_embedding=other)
    assert synthesize(client, speaker_embedding=one, x_vector_only_mode=True) == synthesize(
        client, speaker_embedding=one
    )


def test_refuses_an_embedding_beyond_float32(client: httpx.Client, embedding_width: int) -> None:
    response = client.post(SPEECH, json=speech(speaker_embedding=[1e39] * embedding_width))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "speaker_embedding"


def test_a_streamed_clone_equals_the_complete_response(client: httpx.Client) -> None:
    fields = {"ref_audio": REFERENCE, "ref_text": "one two three"}
    assert synthesize(client, **fields) == synthesize(client, **fields, stream=False)
