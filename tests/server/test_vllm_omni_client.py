"""The messages of a client of vllm-omni's live WebSocket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import ClientConnection, connect

from tests.server.live_client import LIVE, receive_error, receive_utterance, send_messages, send_utterance
from tests.server.scripted_server import TEXT, ScriptedServer, scripted_server
from tests.server.serving import TIMEOUT

CONFIG = {
    "type": "session.config",
    "model": None,
    "voice": "ava",
    "response_format": "pcm",
    "stream_audio": True,
    "split_granularity": "sentence",
    "word_timestamps": False,
    "non_streaming_mode": None,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory.mktemp("voices"), guards="off") as server:
        yield server


@contextmanager
def session(server: ScriptedServer, **fields: Any) -> Iterator[ClientConnection]:
    """A session with the configuration of a client of vllm-omni."""
    with connect(str(server.client.base_url).replace("http", "ws", 1) + LIVE) as socket:
        send_messages(socket, {**CONFIG, **fields})
        yield socket


def test_each_utterance_has_an_index_and_ends_with_session_done(server: ScriptedServer) -> None:
    with session(server) as socket:
        for index in range(2):
            send_utterance(socket, TEXT, size=20)
            audio, (start, done) = receive_utterance(socket)
            assert audio
            assert (start["utterance_index"], start["sentence_index"]) == (index, 0)
            assert (start["format"], start["sample_rate"], start["channels"]) == ("pcm", 24_000, 1)
            assert (done["type"], done["utterance_index"], done["sentence_index"]) == ("audio.done", index, 0)
            ended = json.loads(socket.recv(timeout=TIMEOUT))
            assert ended == {"type": "session.done", "utterance_index": index, "total_sentences": 1}


@pytest.mark.parametrize("finished", [True, False])
def test_session_close_ends_the_session_after_the_audio(server: ScriptedServer, finished: bool) -> None:
    with session(server) as socket:
        send_messages(socket, {"type": "input.text", "text": TEXT})
        if finished:
            send_messages(socket, {"type": "input.done"})
        send_messages(socket, {"type": "session.close"})
        audio, events = receive_utterance(socket)
        assert audio and events[-1]["type"] == "audio.done"
        assert json.loads(socket.recv(timeout=TIMEOUT))["type"] == "session.done"
        with pytest.raises(ConnectionClosedOK):
            socket.recv(timeout=TIMEOUT)


def test_session_close_without_an_utterance_closes_at_once(server: ScriptedServer) -> None:
    with session(server) as socket:
        send_messages(socket, {"type": "session.close"})
        with pytest.raises(ConnectionClosedOK):
            socket.recv(timeout=TIMEOUT)


def test_word_timestamps_name_the_field_to_use(server: ScriptedServer) -> None:
    with session(server, word_timestamps=True) as socket:
        error = receive_error(socket)
    assert (error["param"], error["code"]) == ("word_timestamps", "not_supported")
    assert "timestamp_granularities" in error["message"]
