"""The recorded requests of real clients: `make test-clients` records them, see docs/guides/clients.md."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from scripts.clients import requests
from scripts.clients.dialogue import TURNS, words
from scripts.clients.requests import ClientRequest
from server.app import create_app
from server.settings import load_settings
from tests.server.audio_decoding import CONTENT_TYPES, decode_audio
from tests.server.serving import TIMEOUT
from tests.server.test_sse import parse_events
from tests.support.scripted_engine import ScriptedEngine, good_frames

REQUESTS = requests.load()
DIALOGUES = requests.load_dialogues()
FRAME_SECONDS = 0.08


@dataclass
class Speaking:
    """A server on a socket, and its engine."""

    engine: ScriptedEngine
    url: str

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=TIMEOUT)


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaking]:
    engine = ScriptedEngine()
    voices = {"folder": str(tmp_path_factory.mktemp("voices"))}
    flags = {"engine": {"model": "org/model"}, "voices": voices, "voice_aliases": {"alloy": "ava"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.app.EngineClient", lambda config: engine)
        server = uvicorn.Server(uvicorn.Config(create_app(load_settings(flags=flags)), port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        asyncio.run(_until_started(server, thread))
        yield Speaking(engine, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        server.should_exit = True
        thread.join(TIMEOUT)


async def _until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not server.started:
            assert thread.is_alive()
            await asyncio.sleep(0.01)


def audio_of(request: ClientRequest, response: httpx.Response) -> bytes:
    """The bytes of the audio file in a response, which may be in server-sent events."""
    if request.body.get("stream_format") != "sse":
        return response.content
    events = [event for event in parse_events(response.text.splitlines()) if event["type"] == "speech.audio.delta"]
    return b"".join(base64.b64decode(event["audio"]) for event in events)


@pytest.mark.parametrize("request_of", REQUESTS, ids=lambda request: f"{request.client}, {request.name}")
def test_the_request_of_a_client_is_spoken(speaking: Speaking, request_of: ClientRequest) -> None:
    with speaking.client() as client:
        response = request_of.send(client)
    assert response.status_code == 200, response.text
    kind = request_of.body.get("response_format", "mp3")
    events = request_of.body.get("stream_format") == "sse"
    assert response.headers["content-type"].startswith("text/event-stream" if events else CONTENT_TYPES[kind])
    samples, rate = decode_audio(audio_of(request_of, response), kind)
    assert abs(samples).max() > 0.05
    assert len(samples) / rate == pytest.approx(good_frames(request_of.body["input"]) * FRAME_SECONDS, abs=0.2)
    spoken = speaking.engine.streams[-1].request
    assert (spoken.text, spoken.speaker) == (request_of.body["input"], "ava")


@pytest.mark.parametrize("client_name", DIALOGUES)
def test_every_piece_of_a_dialogue_is_spoken(speaking: Speaking, client_name: str) -> None:
    pieces = DIALOGUES[client_name]
    assert sorted(words(" ".join(pieces))) == sorted(words(" ".join(TURNS)))
    with speaking.client() as client:
        for piece in pieces:
            body = {"model": "tts-1", "voice": "alloy", "input": piece, "response_format": "pcm"}
            response = client.post("/v1/audio/speech", content=json.dumps(body))
            assert response.status_code == 200, (piece, response.text)
            assert len(response.content) > 2 * 24_000 * 0.1, piece


def test_every_client_of_the_page_has_a_request() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "clients.md").read_text()
    sections = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    sections -= {"Tested versions", "Sentences of a language model"}
    assert sections == {each.client.partition(",")[0] for each in REQUESTS}
