"""ElevenLabs' basic routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.scripted_server import TEXT, ScriptedServer, scripted_server
from tests.server.test_bad_input import check

PATH = "/v1/text-to-speech/ava"
KEY = {"xi-api-key": "some-secret"}
FULL: dict[str, Any] = {
    "text": TEXT,
    "model_id": "eleven_multilingual_v2",
    "language_code": "en",
    "seed": 7,
    "apply_text_normalization": "off",
    "previous_text": "Before.",
    "voice_settings": {"stability": 0.5, "similarity_boost": 0.75, "style": 0, "use_speaker_boost": True, "speed": 1.5},
}
"""A request of ElevenLabs' Python package with most of its parameters."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    """A server with a key."""
    settings = {"api_key": "some-secret", "voice_aliases": {"21m00Tcm4TlvDq8ikWAM": "ava"}}
    with scripted_server(tmp_path_factory.mktemp("voices"), **settings) as server:
        server.client.headers.update(KEY)
        yield server


@pytest.mark.parametrize("path", [PATH, "/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM"])
def test_a_request_is_the_same_speech_as_with_openais_route(server: ScriptedServer, path: str) -> None:
    own = {"voice": "ava", "language": "English", "speed": 1.5, "normalize": False, "sample_rate": 16_000}
    for suffix, stream in (("", False), ("/stream", True)):
        expected = server.speak(**own, stream=stream)
        answer = server.client.post(path + suffix, json=FULL, params={"output_format": "pcm_16000"})
        assert answer.status_code == 200, answer.text
        assert answer.content == expected.content
        assert ("content-length" in answer.headers) == (not stream)


def test_mp3_is_the_default_format(server: ScriptedServer) -> None:
    params = {"optimize_streaming_latency": 3, "enable_logging": "false"}
    answer = server.client.post(PATH, json={"text": TEXT}, params=params)
    assert (answer.headers["content-type"], answer.headers["x-sample-rate"]) == ("audio/mpeg", "44100")


@pytest.mark.parametrize(
    ("fields", "output", "expected"),
    [
        ({"text": ""}, "mp3_44100_128", (400, "text", "invalid_value")),
        ({}, "mp3_44100_128", (400, "text", "missing_required_parameter")),
        (
            {"text": TEXT, "voice_settings": {"speed": 9}},
            "mp3_44100_128",
            (400, "voice_settings.speed", "invalid_value"),
        ),
        ({"text": TEXT, "voice_settings": 5}, "mp3_44100_128", (400, "voice_settings", "invalid_type")),
        ({"text": TEXT, "input": "x"}, "mp3_44100_128", (400, "input", "unknown_parameter")),
        ({"text": TEXT, "stabillity": 1}, "mp3_44100_128", (400, "stabillity", "unknown_parameter")),
        (
            {"text": TEXT, "apply_text_normalization": "yes"},
            "mp3_44100_128",
            (400, "apply_text_normalization", "invalid_value"),
        ),
        (
            {"text": TEXT, "apply_text_normalization": ["on"]},
            "mp3_44100_128",
            (400, "apply_text_normalization", "invalid_value"),
        ),
        ({"text": TEXT, "language_code": "xx"}, "mp3_44100_128", (400, "language_code", "invalid_value")),
        ({"text": TEXT, "model_id": "other"}, "mp3_44100_128", (404, "model_id", "model_not_found")),
        ({"text": TEXT}, "ulaw_8000", (400, "output_format", "invalid_value")),
        ({"text": TEXT}, "pcm_96000", (400, "output_format", "invalid_value")),
    ],
)
def test_errors_name_the_fields_as_the_client_knows_them(
    server: ScriptedServer, fields: dict[str, Any], output: str, expected: tuple[int, str, str]
) -> None:
    error = check(server.client.post(PATH, json=fields, params={"output_format": output}), *expected)
    assert expected[1] in error["message"] or "model" in error["message"]


def test_voices_are_listed_as_elevenlabs_clients_read_them(server: ScriptedServer) -> None:
    voices = server.client.get("/v1/voices").json()["voices"]
    assert voices == [{"voice_id": "ava", "name": "ava", "category": "premade"}]


def test_a_wrong_key_is_refused(server: ScriptedServer) -> None:
    check(server.client.post(PATH, json={"text": TEXT}, headers={"xi-api-key": "wrong"}), 401, None, "invalid_api_key")
