"""Live text over a WebSocket: as if it had been there from the beginning, and silent when told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.server.serving import PATIENCE, SPEECH, Serving, write_config

TEXT = "One two three four five, she said; it's already ten past nine!"
CONFIG = {"type": "session.config", "voice": "vivian", "seed": 5, "response_format": "pcm", "max_new_tokens": 40}


@contextmanager
def session(serving: Serving, **config: object) -> Iterator[ClientConnection]:
    url = serving.url.replace("http://", "ws://") + f"{SPEECH}/stream"
    with connect(url, open_timeout=PATIENCE) as socket:
        tell(socket, CONFIG | config)
        yield socket


def tell(socket: ClientConnection, *messages: dict) -> None:
    for message in messages:
        socket.send(json.dumps(message))


def say(socket: ClientConnection, text: str, size: int = 3) -> None:
    for start in range(0, len(text), size):
        tell(socket, {"type": "input.text", "text": text[start : start + size]})
    tell(socket, {"type": "input.done"})


def hear(socket: ClientConnection) -> tuple[bytes, list[dict]]:
    """The audio until an utterance's end, and the events."""
    audio, events = b"", []
    while not events or events[-1]["type"] == "audio.start":
        frame = socket.recv(timeout=PATIENCE)
        if isinstance(frame, bytes):
            audio += frame
        else:
            events.append(json.loads(frame))
    return audio, events


def whole(client, text: str = TEXT, **fields: object) -> bytes:
    body = {name: value for name, value in CONFIG.items() if name != "type"} | {"input": text} | fields
    return client.post(SPEECH, json={**body, "non_streaming_mode": False}).raise_for_status().content


@pytest.mark.parametrize("size", [1, 4, 1000], ids=["by the letter", "by the token", "at once"])
def test_the_bytes_are_those_of_the_whole_text(serving, client, size):
    with session(serving) as socket:
        say(socket, TEXT, size)
        audio, events = hear(socket)
    assert audio == whole(client)
    assert [event["type"] for event in events] == ["audio.start", "audio.done"]
    assert events[0]["format"] == "pcm"
    assert events[0]["sample_rate"] == 24000
    usage = events[1]["usage"]
    assert usage["output_tokens"] * 1920 * 2 == len(audio)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_audio_comes_before_the_text_is_complete(serving):
    with session(serving) as socket:
        tell(socket, {"type": "input.text", "text": TEXT})
        assert json.loads(socket.recv(timeout=PATIENCE))["type"] == "audio.start"
        assert isinstance(socket.recv(timeout=PATIENCE), bytes)
        tell(socket, {"type": "input.done"})
        assert hear(socket)[1][-1]["type"] == "audio.done"


def test_one_utterance_after_the_other(serving, client):
    with session(serving) as socket:
        for text in (TEXT, "Hi", "And once more, please."):
            say(socket, text)
            assert hear(socket)[0] == whole(client, text)


def test_the_formats_of_speech_requests(serving, client):
    with session(serving, response_format="mp3", speed=1.5) as socket:
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client, response_format="mp3", speed=1.5)


def test_cancelled_it_is_silent_and_listens_again(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        tell(socket, {"type": "input.text", "text": TEXT})
        assert isinstance(hear_first(socket), bytes)
        tell(socket, {"type": "cancel"})
        _, events = hear_to_silence(socket)
        assert events[-1] == {"type": "audio.done", "finish_reason": "cancelled", "usage": None}
        tell(socket, CONFIG)
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client)


def hear_first(socket: ClientConnection) -> bytes | str:
    frame = socket.recv(timeout=PATIENCE)
    return frame if isinstance(frame, bytes) else socket.recv(timeout=PATIENCE)


def hear_to_silence(socket: ClientConnection) -> tuple[bytes, list[dict]]:
    audio, events = b"", []
    while not events:
        frame = socket.recv(timeout=PATIENCE)
        if isinstance(frame, bytes):
            audio += frame
        else:
            events.append(json.loads(frame))
    return audio, events


def refusal(socket: ClientConnection) -> dict:
    """The error that ends a session."""
    event = json.loads(socket.recv(timeout=PATIENCE))
    assert event["type"] == "error"
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=PATIENCE)
    assert closed.value.rcvd.code == 1008
    return event["error"]


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ({"type": "shout"}, "type", "invalid_value"),
        ({"type": "input.text"}, "text", "invalid_value"),
        ({"type": "input.text", "text": "a", "more": 1}, "more", "unknown_parameter"),
        ({"type": "input.done"}, "text", "invalid_value"),
        ({"type": "input.text", "text": "a" * 5000}, "text", "string_above_max_length"),
        ({"type": "session.config", "input": "a"}, "input", "unknown_parameter"),
        ({"type": "session.config", "speed": 9}, "speed", "invalid_value"),
        ({"type": "session.config", "voise": "x"}, "voise", "unknown_parameter"),
        ({"type": "session.config", "model": "x"}, "model", "model_not_found"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(serving, message, param, code):
    with session(serving) as socket:
        tell(socket, message)
        error = refusal(socket)
    assert (error["param"], error["code"]) == (param, code)


def test_a_voice_that_is_not_there_is_said_when_it_should_speak(serving):
    with session(serving, voice="nobody") as socket:
        say(socket, TEXT)
        assert refusal(socket)["code"] == "voice_not_found"


def test_text_before_the_configuration_is_refused(serving):
    url = serving.url.replace("http://", "ws://") + f"{SPEECH}/stream"
    with connect(url, open_timeout=PATIENCE) as socket:
        tell(socket, {"type": "input.text", "text": "Hello there."})
        assert refusal(socket)["param"] == "type"


def test_a_client_that_vanishes_leaves_nothing_behind(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        tell(socket, {"type": "input.text", "text": TEXT})
        assert isinstance(hear_first(socket), bytes)
        socket.socket.close()
    serving.wait_for(r"WS .*client_left")
    assert whole(client) == whole(client)


def test_text_after_an_utterance_that_ended_by_itself_is_void(serving, client):
    with session(serving, max_new_tokens=4) as socket:
        tell(socket, {"type": "input.text", "text": TEXT})
        assert hear(socket)[1][-1]["finish_reason"] == "length"
        tell(socket, {"type": "input.text", "text": " More of it."}, {"type": "input.done"}, CONFIG)
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client)


def test_a_done_that_crosses_a_cancel_is_void(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        tell(socket, {"type": "input.text", "text": TEXT})
        assert isinstance(hear_first(socket), bytes)
        tell(socket, {"type": "cancel"}, {"type": "input.done"})
        hear_to_silence(socket)
        tell(socket, CONFIG)
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client)


def test_a_page_of_another_site_is_refused(serving, client):
    url = serving.url.replace("http://", "ws://") + f"{SPEECH}/stream"
    with pytest.raises(InvalidStatus) as refused, connect(url, origin="https://elsewhere.example"):
        pass
    assert refused.value.response.status_code == 403
    reply = client.post(SPEECH, json={"input": "Hello."}, headers={"Origin": "https://elsewhere.example"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "foreign_origin")
    own = client.post(SPEECH, json={"input": "Hello.", "max_new_tokens": 4}, headers={"Origin": serving.url})
    assert own.status_code == 200


def test_a_session_that_waits_too_long_for_text_ends(pocket, tmp_path):
    config = write_config(tmp_path, pocket, limits={"live_idle_seconds": 0.3})
    with Serving(config) as server, session(server.ready()) as socket:
        tell(socket, {"type": "input.text", "text": "One two"})
        _, events = hear_to_silence(socket)
        while events[-1]["type"] != "error":
            _, more = hear_to_silence(socket)
            events += more
        assert events[-1]["error"]["code"] == "session_idle"
