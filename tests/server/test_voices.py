"""Voices: storing, listing, using, blending and deleting them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice
from tests.server.recordings import data_url, tone, wav
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech

VOICES = "/v1/audio/voices"
SAMPLE = wav(tone(1.6))
REFERENCE = data_url(tone(1.6))
TRANSCRIPT = "one two three"


@pytest.fixture(autouse=True)
def _delete_stored_voices(serving: Serving) -> Iterator[None]:
    yield
    with serving.client() as client:
        for card in client.get(VOICES).json()["data"]:
            if card["type"] != "built_in":
                client.delete(f"{VOICES}/{card['id']}").raise_for_status()


@pytest.fixture
def folder(serving: Serving) -> Path:
    """The folder in which the shared server stores voices."""
    return serving.folder / "voices"


def post(client: httpx.Client, path: str = VOICES, sample: bytes | None = None, **texts: str) -> httpx.Response:
    """Post a form with text fields and an optional recording."""
    parts: dict[str, Any] = {name: (None, text) for name, text in texts.items()}
    if sample is not None:
        parts["audio_sample"] = ("sample.wav", sample, "audio/wav")
    return client.post(path, files=parts)


def success(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    card: dict[str, Any] = response.json()
    return card


def refusal_of(response: httpx.Response) -> tuple[int, str | None, str | None]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["param"], error["code"]


def synthesize(client: httpx.Client, **fields: object) -> bytes:
    response = client.post(SPEECH, json=speech(**fields))
    assert response.status_code == 200, response.text
    return response.content


def cards(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {card["id"]: card for card in client.get(VOICES).raise_for_status().json()["data"]}


def test_lists_the_speakers_of_the_checkpoint(client: httpx.Client) -> None:
    listed = client.get(VOICES).json()
    (model,) = client.get("/v1/models").json()["data"]
    assert listed["object"] == "list"
    assert [card["id"] for card in listed["data"]] == model["speakers"]
    assert {card["type"] for card in listed["data"]} == {"built_in"}
    assert (listed["first_id"], listed["has_more"]) == (model["speakers"][0], False)
    assert client.get(f"{VOICES}/{model['speakers'][0].upper()}").json() == listed["data"][0]


def test_a_stored_recording_sounds_like_the_same_reference_in_a_request(client: httpx.Client) -> None:
    card = success(post(client, sample=SAMPLE, name="anna", consent="cons_1"))
    assert (card["id"], card["name"], card["object"], card["type"]) == ("anna", "anna", "audio.voice", "audio_sample")
    assert (card["consent"], card["ref_text"], card["in_context"], card["compatible"]) == ("cons_1", None, False, True)
    assert cards(client)["anna"] == card == client.get(f"{VOICES}/anna").json()
    alone = synthesize(client, ref_audio=REFERENCE)
    assert synthesize(client, voice="anna") == synthesize(client, voice={"id": "anna"}) == alone
    assert synthesize(client, voice="Anna", task_type="Base", x_vector_only_mode=True) == alone


def test_a_stored_transcript_enables_in_context_cloning(client: httpx.Client) -> None:
    card = success(post(client, sample=SAMPLE, name="anna", ref_text=TRANSCRIPT))
    assert (card["ref_text"], card["in_context"]) == (TRANSCRIPT, True)
    assert synthesize(client, voice="anna") == synthesize(client, ref_audio=REFERENCE, ref_text=TRANSCRIPT)
    assert synthesize(client, voice="anna", x_vector_only_mode=True) == synthesize(client, ref_audio=REFERENCE)


def test_an_embedding_can_be_exported_and_stored(client: httpx.Client) -> None:
    answer = success(post(client, f"{VOICES}/embedding", SAMPLE))
    assert answer["object"] == "audio.voice.embedding"
    numbers = answer["speaker_embedding"]
    card = success(post(client, name="anna", speaker_embedding=json.dumps(numbers)))
    assert (card["type"], card["embedding_width"]) == ("speaker_embedding", len(numbers))
    alone = synthesize(client, ref_audio=REFERENCE)
    assert synthesize(client, voice="anna") == synthesize(client, speaker_embedding=numbers) == alone


def test_a_deleted_voice_is_not_found_and_its_name_is_free(client: httpx.Client) -> None:
    success(post(client, sample=SAMPLE, name="anna"))
    assert client.delete(f"{VOICES}/anna").json() == {"id": "anna", "object": "audio.voice.deleted", "deleted": True}
    assert refusal_of(client.delete(f"{VOICES}/anna")) == (404, "voice_id", "voice_not_found")
    assert refusal_of(client.get(f"{VOICES}/anna")) == (404, "voice_id", "voice_not_found")
    assert refusal_of(client.post(SPEECH, json=speech(voice="anna"))) == (404, "voice", "voice_not_found")
    success(post(client, sample=SAMPLE, name="anna"))


def test_voice_names_are_case_insensitive_in_paths(client: httpx.Client) -> None:
    card = success(post(client, sample=SAMPLE, name="anna"))
    assert client.get(f"{VOICES}/Anna").json() == card
    assert client.delete(f"{VOICES}/ANNA").json()["id"] == "anna"
    assert "anna" not in cards(client)


def test_refuses_a_name_that_exists(client: httpx.Client) -> None:
    success(post(client, sample=SAMPLE, name="anna"))
    assert refusal_of(post(client, sample=wav(tone(2.4)), name="anna")) == (409, "name", "voice_exists")
    assert synthesize(client, voice="anna") == synthesize(client, ref_audio=REFERENCE)


@pytest.mark.parametrize("name", ["serena", "alloy", "verse", "echo"])
def test_refuses_the_names_of_built_in_voices_and_aliases(client: httpx.Client, name: str) -> None:
    assert refusal_of(post(client, sample=SAMPLE, name=name)) == (409, "name", "voice_exists")


@pytest.mark.parametrize("name", ["serena", "Serena"])
def test_built_in_voices_cannot_be_deleted(client: httpx.Client, name: str) -> None:
    assert refusal_of(client.delete(f"{VOICES}/{name}")) == (400, "voice_id", "voice_built_in")
    assert synthesize(client, voice="serena")


@pytest.mark.parametrize("name", ["..%2F..%2Fetc%2Fpasswd", "Anna", "a.b", "%00", "a" * 300])
def test_an_invalid_name_is_not_found(client: httpx.Client, name: str) -> None:
    for method in ("GET", "DELETE"):
        assert client.request(method, f"{VOICES}/{name}").status_code == 404


def test_an_unknown_voice_is_a_404_that_lists_the_voices(client: httpx.Client) -> None:
    success(post(client, sample=SAMPLE, name="anna"))
    message = client.post(SPEECH, json=speech(voice="nobody")).json()["error"]["message"]
    assert "serena" in message and "anna" in message


BAD_FORMS: dict[str, tuple[dict[str, Any], tuple[int, str | None, str]]] = {
    "no name": ({"sample": SAMPLE}, (400, "name", "missing_required_parameter")),
    "blank name": ({"sample": SAMPLE, "name": " "}, (400, "name", "missing_required_parameter")),
    "blend name": ({"sample": SAMPLE, "name": "anna+emma"}, (400, "name", "invalid_value")),
    "control character": ({"sample": SAMPLE, "name": "an\x07na"}, (400, "name", "invalid_value")),
    "name too long": ({"sample": SAMPLE, "name": "a" * 101}, (400, "name", "string_above_max_length")),
    "no recording": ({"name": "anna"}, (400, "audio_sample", "missing_required_parameter")),
    "recording and embedding": (
        {"sample": SAMPLE, "name": "anna", "speaker_embedding": "[1]"},
        (400, "speaker_embedding", "invalid_value"),
    ),
    "an unknown field": ({"sample": SAMPLE, "name": "anna", "color": "red"}, (400, "color", "unknown_parameter")),
    "a prompt": ({"name": "anna", "type": "prompt"}, (400, "type", "not_supported")),
    "another type": ({"name": "anna", "type": "song"}, (400, "type", "invalid_value")),
    "the wrong type": (
        {"sample": SAMPLE, "name": "anna", "type": "speaker_embedding"},
        (400, "speaker_embedding", "missing_required_parameter"),
    ),
    "no audio": ({"sample": b"this is not audio", "name": "anna"}, (400, "audio_sample", "invalid_value")),
    "too short": ({"sample": wav(tone(0.5)), "name": "anna"}, (400, "audio_sample", "reference_too_short")),
    "too long": ({"sample": wav(tone(31)), "name": "anna"}, (400, "audio_sample", "reference_too_long")),
    "silence": (
        {"sample": wav(np.zeros(32_000, np.float32)), "name": "anna"},
        (400, "audio_sample", "reference_silent"),
    ),
    "no file": ({"audio_sample": "text", "name": "anna"}, (400, "audio_sample", "invalid_type")),
    "no numbers": ({"name": "anna", "speaker_embedding": "loud"}, (400, "speaker_embedding", "invalid_value")),
    "a number's text": ({"name": "anna", "speaker_embedding": '["1"]'}, (400, "speaker_embedding", "invalid_type")),
    "too few numbers": ({"name": "anna", "speaker_embedding": "[1, 2]"}, (400, "speaker_embedding", "invalid_value")),
    "infinity": ({"name": "anna", "speaker_embedding": "[1e999]"}, (400, "speaker_embedding", "invalid_value")),
    "a norm beyond float16": (
        {"name": "anna", "speaker_embedding": json.dumps([1e4] * 320)},
        (400, "speaker_embedding", "invalid_value"),
    ),
    "transcript without recording": (
        {"name": "anna", "speaker_embedding": "[1]", "ref_text": TRANSCRIPT},
        (400, "audio_sample", "missing_required_parameter"),
    ),
    "a long transcript": (
        {"sample": SAMPLE, "name": "anna", "ref_text": "a" * 4097},
        (400, "ref_text", "string_above_max_length"),
    ),
    "a long consent": (
        {"sample": SAMPLE, "name": "anna", "consent": "a" * 257},
        (400, "consent", "string_above_max_length"),
    ),
}


@pytest.mark.parametrize("case", BAD_FORMS)
def test_refuses_an_invalid_form(client: httpx.Client, case: str) -> None:
    form, expected = BAD_FORMS[case]
    assert refusal_of(post(client, **form)) == expected
    assert "anna" not in cards(client)


FORM = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nanna\r\n'
BAD_BODIES: dict[str, tuple[str, bytes, tuple[int, str | None, str]]] = {
    "json": ("application/json", b"{}", (415, None, "unsupported_media_type")),
    "no type": ("", b"", (415, None, "unsupported_media_type")),
    "no boundary": ("multipart/form-data", PART, (400, None, "invalid_multipart")),
    "no parts": (FORM, b"", (400, "audio_sample", "missing_required_parameter")),
    "not a form": (FORM, b"what is this", (400, None, "invalid_multipart")),
    "a part without name": (
        FORM,
        b"--x\r\nContent-Type: text/plain\r\n\r\na\r\n--x--\r\n",
        (400, None, "invalid_multipart"),
    ),
    "twice": (FORM, PART + PART + b"--x--\r\n", (400, "name", "invalid_value")),
    "too many parts": (FORM, PART * 100 + b"--x--\r\n", (400, None, "invalid_multipart")),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_refuses_a_body_that_is_not_a_form(client: httpx.Client, case: str) -> None:
    kind, body, expected = BAD_BODIES[case]
    assert refusal_of(client.post(VOICES, content=body, headers={"Content-Type": kind})) == expected


def test_refuses_a_form_with_a_length_above_the_limit(client: httpx.Client) -> None:
    assert refusal_of(post(client, sample=bytes(17 * 1024 * 1024), name="anna")) == (413, None, "request_too_large")


def test_refuses_a_chunked_form_that_exceeds_the_limit(client: httpx.Client) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="audio_sample"; filename="a.wav"\r\n\r\n'
    pieces = [head, *[bytes(1024 * 1024)] * 17, b"\r\n--x--\r\n"]
    response = client.post(VOICES, content=iter(pieces), headers={"Content-Type": FORM})
    assert refusal_of(response) == (413, None, "request_too_large")


def test_a_disconnect_during_an_upload_is_not_an_error(serving: Serving) -> None:
    address = urlsplit(serving.url)
    head = (
        f"POST {VOICES} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: {FORM}\r\n"
        "X-Request-Id: half-a-form\r\nContent-Length: 1000\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), TIMEOUT) as connection:
        connection.sendall(head.encode() + PART)
    serving.wait_for(r"id=half-a-form status=499")
    assert not any("Traceback" in line for line in serving.lines)


def test_a_blend_of_one_voice_is_that_voice(client: httpx.Client) -> None:
    success(post(client, sample=SAMPLE, name="anna"))
    assert synthesize(client, voices=[{"voice": "anna"}]) == synthesize(client, ref_audio=REFERENCE)
    one = synthesize(client, voices=[{"voice": "ryan"}], non_streaming_mode=True)
    assert one == synthesize(client, voice="ryan", non_streaming_mode=True)


def test_a_blend_follows_the_weights(client: httpx.Client) -> None:
    def between(anna: float, ryan: float) -> bytes:
        return synthesize(
            client, voice="alloy", voices=[{"voice": "anna", "weight": anna}, {"voice": {"id": "ryan"}, "weight": ryan}]
        )

    success(post(client, sample=SAMPLE, name="anna"))
    assert len({between(1, 0), between(1, 1), between(0, 1)}) == 3
    assert between(2, 6) == between(1, 3)


def test_a_blend_is_stored_or_returned(client: httpx.Client) -> None:
    success(post(client, sample=SAMPLE, name="anna", ref_text=TRANSCRIPT))
    voices = [{"voice": "anna", "weight": 0.3}, {"voice": "ryan", "weight": 0.7}]
    blend = f"{VOICES}/blend"
    numbers = success(client.post(blend, json={"voices": voices}))["speaker_embedding"]
    card = success(client.post(blend, json={"voices": voices, "name": "mixed", "consent": "cons_2"}))
    assert (card["type"], card["in_context"], card["consent"]) == ("blend", False, "cons_2")
    audio = synthesize(client, voice="mixed")
    assert audio == synthesize(client, speaker_embedding=numbers) == synthesize(client, voices=voices)
    assert refusal_of(client.post(blend, json={"voices": voices, "name": "mixed"})) == (409, "name", "voice_exists")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (400, "voices", "missing_required_parameter")),
        ({"voices": [{"voice": "nobody"}]}, (404, "voices", "voice_not_found")),
        ({"voices": [{"voice": "ryan", "weight": 0}]}, (400, "voices", "invalid_value")),
        ({"voices": [{"voice": "ryan"}], "name": "Mixed+"}, (400, "name", "invalid_value")),
        ({"voices": [{"voice": "ryan"}], "name": "serena"}, (409, "name", "voice_exists")),
        ({"voices": [{"voice": "ryan"}], "loud": True}, (400, "loud", "unknown_parameter")),
        ({"voices": [{"speaker_embedding": [0.5]}]}, (400, "voices", "invalid_value")),
    ],
)
def test_refuses_an_invalid_blend(client: httpx.Client, body: dict[str, Any], expected: tuple[int, str, str]) -> None:
    assert refusal_of(client.post(f"{VOICES}/blend", json=body)) == expected


def test_refuses_a_blend_of_opposite_embeddings(client: httpx.Client) -> None:
    numbers = success(post(client, f"{VOICES}/embedding", SAMPLE))["speaker_embedding"]
    voices = [{"speaker_embedding": numbers}, {"speaker_embedding": [-number for number in numbers]}]
    assert refusal_of(client.post(SPEECH, json=speech(voices=voices))) == (400, "voices", "invalid_value")


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_refuses_an_embedding_whose_norm_overflows(client: httpx.Client, folder: Path, size: float) -> None:
    width = client.get("/v1/models").json()["data"][0]["embedding_width"]
    huge, unit = [size] * width, [1.0] + [0.0] * (width - 1)
    blend = [{"speaker_embedding": huge}, {"speaker_embedding": unit}]
    assert refusal_of(client.post(SPEECH, json=speech(speaker_embedding=huge))) == (
        400,
        "speaker_embedding",
        "invalid_value",
    )
    assert refusal_of(client.post(SPEECH, json=speech(voices=blend))) == (400, "voices", "invalid_value")
    assert refusal_of(client.post(f"{VOICES}/blend", json={"voices": blend, "name": "huge"})) == (
        400,
        "voices",
        "invalid_value",
    )
    folder.mkdir(exist_ok=True)
    stored = StoredVoice("huge", "blend", 1, "pocket", np.full(width, size, np.float32))
    (folder / "huge.safetensors").write_bytes(stored.to_bytes())
    assert "huge" not in cards(client)
    assert refusal_of(client.post(SPEECH, json=speech(voice="huge"))) == (500, "voice", "voice_unreadable")
    client.delete(f"{VOICES}/huge").raise_for_status()


def test_a_voice_of_another_checkpoint_is_listed_but_refused(client: httpx.Client, folder: Path) -> None:
    store = VoiceStore(VoiceSettings(folder=folder))
    store.add(StoredVoice("large", "audio_sample", 1, "qwen3-tts-1.7b", np.ones(2048, np.float32)))
    card = cards(client)["large"]
    assert (card["compatible"], card["embedding_width"], card["model"]) == (False, 2048, "qwen3-tts-1.7b")
    response = client.post(SPEECH, json=speech(voice="large"))
    assert refusal_of(response) == (400, "voice", "voice_incompatible")
    assert "qwen3-tts-1.7b" in response.json()["error"]["message"]
    blend = [{"voice": "large"}, {"voice": "ryan"}]
    assert refusal_of(client.post(SPEECH, json=speech(voices=blend))) == (400, "voices", "voice_incompatible")
