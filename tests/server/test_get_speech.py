"""Speech that is requested with a URL, for the setting get_speech."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server.scripted_server import ScriptedServer, scripted_server
from tests.server.serving import SPEECH
from tests.server.test_bad_input import check
from tests.server.test_sse import parse_events

PAGE = "http://page.example"
FOREIGN = {"Sec-Fetch-Site": "cross-site", "Referer": "http://other.example/page"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    """A server that accepts GET, and pages of one other origin."""
    settings = {"get_speech": True, "cors": {"allow_origins": [PAGE]}}
    with scripted_server(tmp_path_factory.mktemp("voices"), **settings) as server:
        yield server


def test_a_url_gives_the_same_speech_as_a_body(server: ScriptedServer) -> None:
    fields = {"response_format": "wav", "speed": "1.25", "seed": "7", "voice": "ava", "stream": "false"}
    answer = server.client.get(SPEECH, params={"input": "Hello & good day, Zoë.", **fields})
    assert answer.content == server.speak(input="Hello & good day, Zoë.", **fields).content
    assert answer.headers["content-type"] == "audio/wav"
    assert server.client.get("/audio/speech/", params={"input": "Hello.", "seed": 7}).status_code == 200


def test_an_event_source_can_read_speech(server: ScriptedServer) -> None:
    params = {"input": "Hello.", "stream_format": "sse", "timestamp_granularities": "word"}
    events = list(parse_events(server.client.get(SPEECH, params=params).iter_lines()))
    assert {event["type"] for event in events} >= {"speech.audio.delta", "speech.audio.done"}


@pytest.mark.parametrize(
    ("params", "param", "code"),
    [
        ({}, "input", "missing_required_parameter"),
        ({"input": ["One.", "Two."]}, "input", "invalid_value"),
        ({"input": "Hello.", "speed": "fast"}, "speed", "invalid_type"),
        ({"input": "Hello.", "voices": "ava"}, "voices", "invalid_type"),
        ({"input": "Hello.", "tempo": "2"}, "tempo", "unknown_parameter"),
    ],
)
def test_an_invalid_parameter_is_a_400(server: ScriptedServer, params: dict, param: str, code: str) -> None:
    check(server.client.get(SPEECH, params=params), 400, param, code)


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site", "Referer": f"{PAGE}/page"}, True),
        ({"Origin": PAGE}, True),
        (FOREIGN, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Referer": "http://[bad"}, False),
        ({"Origin": "http://other.example"}, False),
    ],
    ids=str,
)
def test_only_allowed_pages_can_embed_speech(server: ScriptedServer, headers: dict, allowed: bool) -> None:
    """A browser sends no Origin with the request of an audio element."""
    answer = server.client.get(SPEECH, params={"input": "Hello."}, headers=headers)
    if allowed:
        assert answer.status_code == 200
    else:
        check(answer, 403, None, "foreign_origin")


def test_foreign_pages_can_still_read_what_is_public(server: ScriptedServer) -> None:
    assert server.client.get("/health", headers=FOREIGN).status_code == 200


def test_without_the_setting_get_is_a_405_that_names_it(client: httpx.Client) -> None:
    answer = client.get(SPEECH, params={"input": "Hello."})
    error = check(answer, 405, None, "method_not_allowed")
    assert "get_speech: true" in error["message"]
    assert answer.headers["allow"] == "POST"


def test_head_synthesizes_nothing(server: ScriptedServer) -> None:
    answer = server.client.head(SPEECH, params={"input": "Hello."})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
