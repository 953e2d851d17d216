"""Values and field names that clients of other servers send, and that cannot be misunderstood."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from server.request_models.field_names import CLIENT_FIELDS
from tests.server.recordings import data_url, tone
from tests.server.scripted_server import ScriptedServer, scripted_server
from tests.server.serving import SPEECH, speech
from tests.server.test_bad_input import check

HEADER = "X-Ignored-Fields"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory.mktemp("voices"), ignored_fields=["mood"]) as server:
        yield server


@pytest.fixture(scope="module")
def ignoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    """A server that ignores unknown fields."""
    with scripted_server(tmp_path_factory.mktemp("voices"), unknown_fields="ignore") as server:
        yield server


EMPTY = (
    "model voice speaker instructions stream_format stream task_type language ref_audio ref_text speaker_embedding "
    "voices speed sample_rate split temperature top_k extra_params pronunciations timestamp_granularities"
).split()
SPELLINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"speed": "1.5"}, {"speed": 1.5}),
    ({"speed": " 2 "}, {"speed": 2.0}),
    ({"stream": "False"}, {"stream": False}),
    ({"stream": "true"}, {}),
    ({"response_format": "WAV"}, {"response_format": "wav"}),
    ({"stream_format": "SSE"}, {"stream_format": "sse"}),
    ({"split": "Sentence"}, {"split": "sentence"}),
    ({"task_type": "customvoice"}, {"task_type": "CustomVoice"}),
    ({"seed": "7"}, {"seed": 7}),
    ({"seed": 7.0}, {"seed": 7}),
    ({"temperature": "0.5", "top_k": "40", "top_p": "0.9"}, {"temperature": 0.5, "top_k": 40, "top_p": 0.9}),
    ({"extra_params": {"top_k": "40"}}, {"top_k": 40}),
    ({"sample_rate": "16000"}, {"sample_rate": 16_000}),
    ({"sample_rate": 16_000.0}, {"sample_rate": 16_000}),
    ({"language": "en"}, {"language": "English"}),
    ({"language": "en-US"}, {"language": "English"}),
    ({"language": "en_GB"}, {"language": "English"}),
    ({"speaker": "ava"}, {"voice": "ava"}),
    ({"speaker": "ava", "voice": "ava"}, {"voice": "ava"}),
    ({"input": [{"speaker": "ava", "input": "One.", "language": "en"}]}, {"input": "One.", "language": "English"}),
    (dict.fromkeys(EMPTY, ""), {}),
    ({"word_timestamps": "false"}, {}),
]


@pytest.mark.parametrize(("sent", "meant"), SPELLINGS, ids=lambda fields: str(fields)[:50])
def test_a_spelling_means_the_same_as_the_plain_value(
    server: ScriptedServer, sent: dict[str, Any], meant: dict[str, Any]
) -> None:
    plain, expected = server.speak(**meant), server.requested
    response, requested = server.speak(**sent), server.requested
    assert requested.language == expected.language
    assert (requested.text, requested.speaker, requested.sampling) == (
        expected.text,
        expected.speaker,
        expected.sampling,
    )
    assert response.content == plain.content
    for header in ("content-type", "x-sample-rate", "content-length"):
        assert response.headers.get(header) == plain.headers.get(header)


@pytest.mark.parametrize("seed", [-1, "-1", ""])
def test_seed_minus_one_is_a_random_seed(server: ScriptedServer, seed: object) -> None:
    server.speak(seed=seed)
    assert server.requested.sampling.seed is None


def test_a_byte_order_mark_is_skipped(server: ScriptedServer) -> None:
    body = codecs.BOM_UTF8 + json.dumps({"input": "Hello.", "response_format": "pcm"}).encode()
    response = server.client.post(SPEECH, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 200


AMBIGUOUS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"speed": "1,5"}, "speed", "invalid_type", "'1,5'"),
    ({"speed": "fast"}, "speed", "invalid_type", "'fast'"),
    ({"speed": "7.5"}, "speed", "invalid_value", "7.5"),
    ({"stream": "yes"}, "stream", "invalid_type", "'yes'"),
    ({"stream": 1}, "stream", "invalid_type", "1"),
    ({"response_format": "ogg"}, "response_format", "invalid_value", "'mp3', 'opus', 'aac', 'flac', 'wav' or 'pcm'"),
    ({"seed": -2}, "seed", "invalid_value", "-2"),
    ({"seed": 1.5}, "seed", "invalid_type", "1.5"),
    ({"speaker": "ava", "voice": "alloy"}, "speaker", "invalid_value", "'ava' and 'alloy'"),
    ({"ref_audio": ["a", "b"]}, "ref_audio", "invalid_type", "a list"),
    ({"references": ["a"]}, "references", "invalid_type", "audio_path"),
    ({"references": [{}]}, "references", "invalid_type", "audio_path"),
    ({"references": [{"text": "Hello."}]}, "references", "invalid_type", "audio_path"),
    ({"word_timestamps": "true"}, "word_timestamps", "not_supported", "timestamp_granularities"),
    ({"tempreature": 0.5}, "tempreature", "unknown_parameter", "did you mean 'temperature'?"),
    ({"extra_params": {"topk": 5}}, "extra_params.topk", "unknown_parameter", "did you mean 'top_k'?"),
    ({"xyz": 0.5}, "xyz", "unknown_parameter", "unknown_fields"),
]


@pytest.mark.parametrize(("fields", "param", "code", "text"), AMBIGUOUS, ids=lambda value: str(value)[:40])
def test_what_could_be_misunderstood_is_refused_with_what_was_sent_and_what_is_allowed(
    server: ScriptedServer, fields: dict[str, Any], param: str, code: str, text: str
) -> None:
    error = check(server.post(**fields), 400, param, code)
    assert text in error["message"]


def test_fields_of_well_known_clients_are_accepted_silently(server: ScriptedServer) -> None:
    sent = {name: {"any": "thing"} for name in (*CLIENT_FIELDS, "mood")}
    response = server.speak(**sent)
    assert HEADER not in response.headers


def test_ignored_fields_are_named_in_a_header(ignoring: ScriptedServer) -> None:
    sent = {"tempreature": 0.5, "lang_code": "a", "extra_params": {"topk": 5}}
    for fields in ({}, {"stream": False}, {"stream_format": "sse"}):
        response = ignoring.speak(**sent, **fields)
        assert response.headers[HEADER] == "extra_params.topk, tempreature"
    response = ignoring.speak()
    assert HEADER not in response.headers


def test_names_of_ignored_fields_cannot_add_headers(ignoring: ScriptedServer) -> None:
    response = ignoring.speak(**{"a\r\nSet-Cookie: b": 1, "é" * 100: 2})
    assert response.headers[HEADER] == "?" * 64 + ", a??Set-Cookie??b"
    assert "set-cookie" not in response.headers
    response = ignoring.speak(**{f"field{number:02}": 1 for number in range(30)})
    assert response.headers[HEADER].endswith("field15, ...")


def test_ignored_fields_of_a_batch_are_named_in_a_header(ignoring: ScriptedServer) -> None:
    items = [{"input": "One.", "mood": "good"}, {"input": "Two.", "speaker": "ava"}]
    body = {"items": items, "response_format": "PCM", "tempo": 3}
    response = ignoring.client.post(f"{SPEECH}/batch", json=body)
    assert response.json()["succeeded"] == 2
    assert response.headers[HEADER] == "mood, tempo"


def test_ignored_fields_of_a_live_session_are_named_in_its_first_event(ignoring: ScriptedServer) -> None:
    address = str(ignoring.client.base_url).replace("http", "ws", 1) + f"{SPEECH}/stream"
    with connect(address) as session:
        session.send(json.dumps({"type": "session.config", "response_format": "PCM", "tempo": 3}))
        session.send(json.dumps({"type": "input.text", "text": "Hello there."}))
        session.send(json.dumps({"type": "input.done"}))
        start = json.loads(session.recv())
    assert (start["type"], start["ignored_fields"]) == ("audio.start", ["tempo"])


@pytest.mark.parametrize("kind", ["base64", "list", "references"])
def test_a_reference_recording_may_be_sent_as_other_servers_take_it(client: httpx.Client, kind: str) -> None:
    url = data_url(tone(1.5))
    sent = {
        "base64": {"ref_audio": url.partition(",")[2]},
        "list": {"ref_audio": [url]},
        "references": {"references": [{"audio_path": url, "text": ""}]},
    }
    expected = client.post(SPEECH, json=speech(ref_audio=url, max_new_tokens=3)).raise_for_status().content
    assert client.post(SPEECH, json=speech(**sent[kind], max_new_tokens=3)).raise_for_status().content == expected
