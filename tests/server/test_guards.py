"""Faulty speech never reaches a client as a success: it is made again, or the request fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from websockets.asyncio.client import connect

from server.app import create_app
from server.guards.stream import retry_seed
from server.settings import load_settings
from tests.server.serving import NO_CERTIFICATES, SPEECH
from tests.server.test_sse import parse_events
from tests.support.recorded_speech import GOOD, ONE_MISSING, PROFILE, RECORDING, samples_of
from tests.support.scripted_engine import (
    ScriptedEngine,
    Take,
    endless,
    good,
    info,
    repeating,
    silent,
    truncated,
)

TEXT = "The bus was late again, so I walked to the office in the rain."
PIECES = 4
LONG = " ".join([TEXT] * PIECES * 3)
FAULTY = {"silent": silent, "runaway": endless, "truncated": truncated, "repeating": repeating}


@dataclass
class Speaking:
    """A server on a socket, whose engine follows scripts."""

    engine: ScriptedEngine
    client: httpx.AsyncClient

    async def post(self, **fields: Any) -> httpx.Response:
        body = {"input": TEXT, "response_format": "pcm", "seed": 7, **fields}
        return await self.client.post(SPEECH, json=body, headers={"X-Request-Id": "r"})

    async def outcome(self) -> dict[str, Any]:
        outcome: dict[str, Any] = (await self.client.get(f"{SPEECH}/r")).json()
        return outcome

    async def metric(self, line: str) -> bool:
        return line in (await self.client.get("/metrics")).text.replace(',model="model"', "").splitlines()


@asynccontextmanager
async def run(
    folder: Path, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[Speaking]:
    monkeypatch.setattr("server.app.engine_pool", lambda *_: engine)
    flags = {"engine": {"model": "org/model"}, "voices": {"folder": str(folder)}, **settings}
    server = uvicorn.Server(uvicorn.Config(create_app(load_settings(flags=flags)), port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=NO_CERTIFICATES) as client:
            yield Speaking(engine, client)
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def speaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Speaking]:
    async with run(tmp_path, ScriptedEngine(), monkeypatch) as speaking:
        yield speaking


@pytest.mark.parametrize("fault", FAULTY)
async def test_a_complete_response_has_good_speech_after_a_retry(speaking: Speaking, fault: str) -> None:
    expected = (await speaking.post(seed=retry_seed(7, 1), stream=False)).content
    for _ in range(2):
        speaking.engine.scripts = [FAULTY[fault]]
        answer = await speaking.post(stream=False)
        assert (answer.status_code, answer.headers["X-Finish-Reason"]) == (200, "stop")
        assert answer.content == expected
    assert (await speaking.outcome())["retries"] == f"{fault}:1"
    assert await speaking.metric(f'sonant_piece_retries_total{{fault="{fault}"}} 2.0')


async def test_a_complete_response_has_no_missing_words_after_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine([ONE_MISSING, GOOD], info(profile=PROFILE))
    async with run(tmp_path, engine, monkeypatch) as speaking:
        answer = await speaking.post(input=RECORDING.text, stream=False)
        assert np.array_equal(np.frombuffer(answer.content, "<i2"), samples_of(GOOD))
        assert (await speaking.outcome())["retries"] == "words:1"
        assert await speaking.metric('sonant_piece_retries_total{fault="words"} 1.0')


@pytest.mark.parametrize("stream", [True, False])
async def test_silence_is_made_again_before_a_stream_begins(speaking: Speaking, stream: bool) -> None:
    speaking.engine.scripts = [silent, lambda text: Take(60, level=1)]
    answer = await speaking.post(stream=stream)
    assert answer.status_code == 200
    expected = await speaking.post(seed=retry_seed(7, 2), stream=stream)
    assert answer.content == expected.content


@pytest.mark.parametrize("fields", [{"stream": False}, {}, {"stream_format": "sse"}])
async def test_speech_that_cannot_be_mended_is_an_error(speaking: Speaking, fields: dict[str, Any]) -> None:
    speaking.engine.scripts = [silent] * 3
    answer = await speaking.post(**fields)
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "speech_failed"
    assert error["type"] == "server_error"
    assert "the speech was silent in each of 3 attempts" in error["message"]
    outcome = await speaking.outcome()
    assert (outcome["outcome"], outcome["retries"], outcome["fault"]) == ("failed", "silent:2", "silent")
    assert await speaking.metric('sonant_piece_failures_total{fault="silent"} 1.0')


@pytest.mark.parametrize("script", [endless, repeating, truncated])
async def test_a_fault_in_audio_that_was_sent_ends_the_events_with_an_error(speaking: Speaking, script: Any) -> None:
    speaking.engine.scripts = [script]
    body = {"input": TEXT, "stream_format": "sse"}
    lines: list[str] = []
    with pytest.raises(httpx.RemoteProtocolError):  # some clients ignore error events
        async with speaking.client.stream("POST", SPEECH, json=body, headers={"X-Request-Id": "r"}) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                lines.append(line)
    *deltas, last = parse_events(lines)
    assert deltas
    assert (last["type"], last["error"]["code"]) == ("error", "speech_failed")
    assert (await speaking.outcome())["outcome"] == "failed"


async def test_a_fault_in_audio_that_was_sent_cuts_a_raw_stream(speaking: Speaking) -> None:
    speaking.engine.scripts = [endless]
    with pytest.raises(httpx.RemoteProtocolError):
        await speaking.post()
    assert (await speaking.outcome())["error"] == "speech_failed"


@pytest.mark.parametrize("fault", FAULTY)
async def test_later_pieces_of_a_stream_are_made_again(speaking: Speaking, fault: str) -> None:
    good_answer = await speaking.post(input=LONG)
    count = len(speaking.engine.streams)
    assert count > 2
    speaking.engine.scripts = [good, FAULTY[fault]]
    answer = await speaking.post(input=LONG)
    assert answer.status_code == 200
    assert len(speaking.engine.streams) == 2 * count + 1
    assert (await speaking.outcome())["retries"] == f"{fault}:1"
    assert len(answer.content) == pytest.approx(len(good_answer.content), rel=0.01)


async def test_the_clients_own_length_limit_is_no_fault(speaking: Speaking) -> None:
    speaking.engine.scripts = [lambda text: Take(5, reason=endless(text).reason)]
    answer = await speaking.post(max_new_tokens=6, stream=False)
    assert (answer.status_code, answer.headers["X-Finish-Reason"]) == (200, "length")
    assert len(answer.content) == 5 * 1920 * 2


async def test_an_item_of_a_batch_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine([silent, good, silent, silent, silent])
    async with run(tmp_path, engine, monkeypatch, limits={"max_running": 1}) as speaking:
        body = {"items": [{"input": TEXT, "seed": 1}, {"input": TEXT, "seed": 2}]}
        answer = (await speaking.client.post(f"{SPEECH}/batch", json=body)).json()
    first, second = answer["results"]
    assert first["finish_reason"] == "stop"
    assert second["error"]["code"] == "speech_failed"


async def live_events(speaking: Speaking, *texts: str) -> list[dict[str, Any]]:
    """The events of a live session with one utterance, up to its end."""
    url = str(speaking.client.base_url.join(f"{SPEECH}/stream").copy_with(scheme="ws"))
    async with connect(url) as socket:
        await socket.send(json.dumps({"type": "session.config", "response_format": "pcm"}))
        for text in texts:
            await socket.send(json.dumps({"type": "input.text", "text": text}))
        await socket.send(json.dumps({"type": "input.done"}))
        events: list[dict[str, Any]] = []
        async for message in socket:
            if isinstance(message, str):
                events.append(json.loads(message))
                if events[-1]["type"] in ("audio.done", "error"):
                    return events
        raise AssertionError("the session ended without an event")


@pytest.mark.parametrize("fault", FAULTY)
async def test_faulty_live_speech_ends_with_an_error_event(speaking: Speaking, fault: str) -> None:
    speaking.engine.scripts = [FAULTY[fault]]
    last = (await live_events(speaking, TEXT[:20], TEXT[20:]))[-1]
    assert (last["type"], last["error"]["code"]) == ("error", "speech_failed")
    assert len(speaking.engine.streams) == 1
    assert await speaking.metric(f'sonant_piece_failures_total{{fault="{fault}"}} 1.0')


async def test_live_speech_is_compared_with_all_of_its_text(speaking: Speaking) -> None:
    speaking.engine.scripts = [lambda text: good(TEXT)]
    last = (await live_events(speaking, TEXT[:20], TEXT[20:]))[-1]
    assert (last["type"], last["finish_reason"]) == ("audio.done", "stop")


async def test_guards_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(tmp_path, ScriptedEngine([silent]), monkeypatch, guards="off") as speaking:
        answer = await speaking.post(stream=False)
        assert (answer.status_code, len(answer.content)) == (200, 2 * 1920 * 2)


async def test_a_random_checkpoint_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(tmp_path, ScriptedEngine([silent], info(trained=False)), monkeypatch) as speaking:
        answer = await speaking.post(stream=False)
        assert (answer.status_code, len(answer.content)) == (200, 2 * 1920 * 2)
