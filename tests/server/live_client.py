"""A client of live sessions, over the websockets library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.server.serving import PATIENCE, SPEECH, Serving

TEXT = "One two three four five, she said; it's already ten past nine!"
CONFIG = {"type": "session.config", "voice": "vivian", "seed": 5, "response_format": "pcm", "max_new_tokens": 40}
LIVE = f"{SPEECH}/stream"


def live_url(serving: Serving, path: str = LIVE) -> str:
    return serving.url.replace("http://", "ws://") + path


@contextmanager
def session(serving: Serving, name: str | None = None, **config: object) -> Iterator[ClientConnection]:
    """A session that is configured; ``name`` is its request id."""
    headers = {**serving.headers, **({"X-Request-Id": name} if name else {})}
    with connect(live_url(serving), open_timeout=PATIENCE, additional_headers=headers) as socket:
        tell(socket, CONFIG | config)
        yield socket


def tell(socket: ClientConnection, *messages: dict[str, Any]) -> None:
    for message in messages:
        socket.send(json.dumps(message))


def write(socket: ClientConnection, text: str = TEXT) -> None:
    """Text, and maybe more of it to come."""
    tell(socket, {"type": "input.text", "text": text})


def say(socket: ClientConnection, text: str, size: int = 3) -> None:
    for start in range(0, len(text), size):
        write(socket, text[start : start + size])
    tell(socket, {"type": "input.done"})


def hear(socket: ClientConnection) -> tuple[bytes, list[dict[str, Any]]]:
    """The audio until an utterance's end, and the events."""
    audio, events = b"", []
    while not events or events[-1]["type"] == "audio.start":
        more, event = hear_to_event(socket)
        audio += more
        events.append(event)
    return audio, events


def hear_to_event(socket: ClientConnection) -> tuple[bytes, dict[str, Any]]:
    """The audio until the next event, and that."""
    audio = b""
    while isinstance(frame := socket.recv(timeout=PATIENCE), bytes):
        audio += frame
    return audio, json.loads(frame)


def hear_first(socket: ClientConnection) -> bytes:
    """The first audio of an utterance."""
    assert hear_to_event(socket)[1]["type"] == "audio.start"
    frame = socket.recv(timeout=PATIENCE)
    assert isinstance(frame, bytes)
    return frame


def refusal(socket: ClientConnection, code: int = 1008) -> dict[str, Any]:
    """The error that ends a session, which is then closed with ``code``."""
    _, event = hear_to_event(socket)
    while event["type"] != "error":
        _, event = hear_to_event(socket)
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=PATIENCE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code
    assert sorted(event["error"]) == ["code", "message", "param", "type"]
    error: dict[str, Any] = event["error"]
    return error
