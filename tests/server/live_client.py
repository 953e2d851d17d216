"""A client for live sessions, built on the websockets library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.server.serving import SPEECH, TIMEOUT, Serving

TEXT = "One two three four five, she said; it's already ten past nine!"
CONFIG = {"type": "session.config", "voice": "vivian", "seed": 5, "response_format": "pcm", "max_new_tokens": 40}
LIVE = f"{SPEECH}/stream"


def live_url(serving: Serving, path: str = LIVE) -> str:
    return serving.url.replace("http://", "ws://") + path


@contextmanager
def session(serving: Serving, name: str | None = None, **config: object) -> Iterator[ClientConnection]:
    """Open and configure a live session; ``name`` is its request id."""
    headers = {**serving.headers, **({"X-Request-Id": name} if name else {})}
    with connect(live_url(serving), open_timeout=TIMEOUT, additional_headers=headers) as socket:
        send_messages(socket, CONFIG | config)
        yield socket


def send_messages(socket: ClientConnection, *messages: dict[str, Any]) -> None:
    for message in messages:
        socket.send(json.dumps(message))


def send_text(socket: ClientConnection, text: str = TEXT) -> None:
    """Send text without ending the utterance."""
    send_messages(socket, {"type": "input.text", "text": text})


def send_utterance(socket: ClientConnection, text: str, size: int = 3) -> None:
    for start in range(0, len(text), size):
        send_text(socket, text[start : start + size])
    send_messages(socket, {"type": "input.done"})


def receive_utterance(socket: ClientConnection) -> tuple[bytes, list[dict[str, Any]]]:
    """The audio up to the end of an utterance, and the events."""
    audio, events = b"", []
    while not events or events[-1]["type"] in ("audio.start", "speech.audio.words"):
        more, event = receive_until_event(socket)
        audio += more
        events.append(event)
    return audio, events


def receive_until_event(socket: ClientConnection) -> tuple[bytes, dict[str, Any]]:
    """The audio up to the next event, and the event."""
    audio = b""
    while isinstance(frame := socket.recv(timeout=TIMEOUT), bytes):
        audio += frame
    return audio, json.loads(frame)


def receive_first_audio(socket: ClientConnection) -> bytes:
    """The first audio of an utterance."""
    assert receive_until_event(socket)[1]["type"] == "audio.start"
    frame = socket.recv(timeout=TIMEOUT)
    assert isinstance(frame, bytes)
    return frame


def receive_error(socket: ClientConnection, code: int = 1008) -> dict[str, Any]:
    """The error that ends a session; asserts that the server closes it with ``code``."""
    _, event = receive_until_event(socket)
    while event["type"] != "error":
        _, event = receive_until_event(socket)
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=TIMEOUT)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code
    assert sorted(event["error"]) == ["code", "message", "param", "type"]
    error: dict[str, Any] = event["error"]
    return error
