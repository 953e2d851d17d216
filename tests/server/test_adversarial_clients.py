"""Two hundred clients that nobody would want: everybody else is served as ever, and nothing of them stays.

For ten minutes, and with figures: ``python -m benchmarks.http.soak``.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.server.serving import PATIENCE, SPEECH, Serving, busy, endless, speech, write_config

HEAD = f"POST {SPEECH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
HALVES = {
    "nothing": (b"", None),
    "half a head": (HEAD.encode()[:60], 408),
    "half a handshake": (b"GET /v1/audio/speech/stream HTTP/1.1\r\nUpgrade: websocket\r\n", 408),
    "half a body": ((HEAD + 'Content-Length: 400\r\n\r\n{"input": "').encode(), 408),
    "half a chunk": ((HEAD + "Transfer-Encoding: chunked\r\n\r\n40\r\n{").encode(), 408),
    "no HTTP": (bytes(range(256)) + b"\r\n\r\n", 400),
}
"""What a client sends before it falls silent, and the status of what it is told then, if anything."""
PLACES = 4
STALLED = 2


@pytest.fixture(scope="module")
def impatient(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that gives up soon."""
    limits = {"request_seconds": 2.0, "stalled_seconds": 2.0, "live_idle_seconds": 4.0, "max_running": PLACES}
    config = write_config(tmp_path_factory.mktemp("impatient"), pocket, limits=limits, default_voice="serena")
    with Serving(config) as server:
        yield server.ready()


def silent(server: Serving, data: bytes) -> socket.socket:
    """A client that sends ``data`` and nothing more."""
    url = urlsplit(server.url)
    client = socket.create_connection((url.hostname, url.port), PATIENCE)
    client.sendall(data)
    return client


def told(client: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    said = b""
    while data := client.recv(65_536):
        said += data
    return said


def session(server: Serving) -> ClientConnection:
    """A live session of a client that does not wait to be let go."""
    return connect(server.url.replace("http", "ws", 1) + f"{SPEECH}/stream", open_timeout=PATIENCE, close_timeout=0.1)


def spoken(server: Serving) -> bytes:
    with server.client() as client:
        return client.post(SPEECH, json=speech(max_new_tokens=40)).raise_for_status().content


def opened(server: Serving) -> int:
    """Open files of all processes."""
    return sum(each.num_fds() for each in server.processes().all)


def test_others_hear_the_same_beside_two_hundred_of_them(impatient: Serving) -> None:
    alone = spoken(impatient)
    impatient.until_idle()
    held = opened(impatient)
    with ExitStack() as crowd:
        for number in range(STALLED):
            crowd.enter_context(impatient.asked(endless(), f"stalled-{number}", window=4096))
        impatient.until(busy)
        halves = list(HALVES.values())
        for number in range(200 - STALLED):
            crowd.enter_context(silent(impatient, halves[number % len(halves)][0]))
        assert [spoken(impatient) for _ in range(3)] == [alone] * 3
    for number in range(STALLED):
        impatient.wait_for(rf"id=stalled-{number} status=499")
    impatient.until_idle()
    impatient.until(lambda _: opened(impatient) <= held)
    assert spoken(impatient) == alone


@pytest.mark.parametrize("name", HALVES)
def test_the_server_hangs_up_on_a_client_that_stops_in_the_middle(impatient: Serving, name: str) -> None:
    data, status = HALVES[name]
    with silent(impatient, data) as client:
        head, _, body = told(client).partition(b"\r\n\r\n")
    if status is None:
        assert head == b""
        return
    assert int(head.split()[1]) == status
    error = json.loads(body)["error"]
    assert error["code"] == ("request_timeout" if status == 408 else "invalid_http")
    assert sorted(error) == ["code", "message", "param", "type"]


def test_a_byte_now_and_then_is_no_request_either(impatient: Serving) -> None:
    with silent(impatient, HALVES["half a body"][0]) as client:
        client.settimeout(0.05)
        said = b""
        while not said:
            try:
                client.sendall(b"a")
                said = client.recv(65_536)
            except TimeoutError:
                continue
    assert b" 408 " in said


def test_a_request_that_follows_another_must_end_too(impatient: Serving) -> None:
    with silent(impatient, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        client.sendall(b"GET /hea")
        assert b"HTTP/1.1 408 " in told(client)


def test_a_session_may_last_longer_than_a_request_may_take(impatient: Serving) -> None:
    with session(impatient) as live:
        with silent(impatient, b"") as other:
            live.send(json.dumps({"type": "session.config", "response_format": "pcm", "max_new_tokens": 8}))
            assert told(other) == b""
        live.send(json.dumps({"type": "input.text", "text": "Hello there, you. "}))
        assert json.loads(live.recv(timeout=PATIENCE))["type"] == "audio.start"


@pytest.mark.parametrize("frame", [b"", b"\x81\xfe\x10\x00\0\0\0\0{"], ids=["silent", "half a frame"])
def test_a_live_session_must_say_something(impatient: Serving, frame: bytes) -> None:
    with session(impatient) as live:
        live.socket.sendall(frame)
        assert json.loads(live.recv(timeout=PATIENCE))["error"]["code"] == "session_idle"
        with pytest.raises(ConnectionClosed):
            live.recv(timeout=PATIENCE)
