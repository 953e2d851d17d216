"""The recorded requests of real clients: `make test-clients` records them, see docs/guides/clients.md."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scripts.clients import requests
from scripts.clients.dialogue import TURNS, words
from scripts.clients.page import PAGE
from scripts.clients.requests import ClientRequest
from tests.server.audio_decoding import CONTENT_TYPES, decode_audio
from tests.server.scripted_server import ScriptedServer, scripted_server
from tests.server.serving import NO_CERTIFICATES, TIMEOUT
from tests.server.test_sse import parse_events
from tests.support.scripted_engine import good_frames

REQUESTS = requests.load()
DIALOGUES = requests.load_dialogues()
FRAME_SECONDS = 0.08


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    """A server with the settings of the default configuration that clients need."""
    settings = {"voice_aliases": {"alloy": "ava"}, "text": {"soundless": "silence"}}
    with scripted_server(tmp_path_factory.mktemp("voices"), **settings) as server:
        yield server


def audio_of(request: ClientRequest, response: httpx.Response) -> bytes:
    """The bytes of the audio file in a response, which may be in server-sent events."""
    if request.body.get("stream_format") != "sse":
        return response.content
    events = [event for event in parse_events(response.text.splitlines()) if event["type"] == "speech.audio.delta"]
    return b"".join(base64.b64decode(event["audio"]) for event in events)


@pytest.mark.parametrize("request_of", REQUESTS, ids=lambda request: f"{request.client}, {request.name}")
def test_the_request_of_a_client_is_spoken(server: ScriptedServer, request_of: ClientRequest) -> None:
    with httpx.Client(base_url=server.client.base_url, timeout=TIMEOUT, verify=NO_CERTIFICATES) as client:
        response = request_of.send(client)
    assert response.status_code == 200, response.text
    kind = request_of.body.get("response_format", "mp3")
    events = request_of.body.get("stream_format") == "sse"
    assert response.headers["content-type"].startswith("text/event-stream" if events else CONTENT_TYPES[kind])
    samples, rate = decode_audio(audio_of(request_of, response), kind)
    assert abs(samples).max() > 0.05
    assert len(samples) / rate == pytest.approx(good_frames(request_of.body["input"]) * FRAME_SECONDS, abs=0.2)
    assert (server.requested.text, server.requested.speaker) == (request_of.body["input"], "ava")


@pytest.mark.parametrize("client_name", DIALOGUES)
def test_every_piece_of_a_dialogue_is_spoken(server: ScriptedServer, client_name: str) -> None:
    pieces = DIALOGUES[client_name]
    assert sorted(words(" ".join(pieces))) == sorted(words(" ".join(TURNS)))
    for piece in pieces:
        response = server.speak(model="tts-1", voice="alloy", input=piece)
        assert len(response.content) > 2 * 24_000 * 0.1, piece


@pytest.mark.parametrize(("text", "seconds"), [("🙂", 0.2), ("...", 0.2), ("** ", 0.2), ("[pause 1.5s]", 1.5)])
@pytest.mark.parametrize("options", [{"stream": False}, {"timestamp_granularities": ["word"]}])
def test_a_sentence_without_sound_is_silence(
    server: ScriptedServer, text: str, seconds: float, options: dict[str, Any]
) -> None:
    submitted = len(server.engine.streams)
    assert server.speak(input=text, **options).content == bytes(round(2 * 24_000 * seconds))
    assert len(server.engine.streams) == submitted


def test_a_turn_without_sound_is_refused(server: ScriptedServer) -> None:
    response = server.post(input=[{"input": "Hello.", "voice": "ava"}, {"input": "🙂", "voice": "ava"}])
    assert (response.status_code, response.json()["error"]["code"]) == (400, "nothing_to_speak")


def test_every_client_of_the_page_has_a_request() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    sections = {line.removeprefix("## ") for line in lines if line.startswith("## ")}
    sections -= {"Tested versions", "Sentences of a language model"}
    assert sections == {each.client for each in REQUESTS}
