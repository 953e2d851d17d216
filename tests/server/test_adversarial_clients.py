"""Two hundred adversarial clients: others are served as before, and no resource stays in use.

For ten minutes and with measurements: ``python -m benchmarks.http.soak``.
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

from tests.server.serving import SPEECH, TIMEOUT, Serving, busy, endless, speech, write_config

HEAD = f"POST {SPEECH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
PARTIAL_REQUESTS = {
    "nothing": (b"", None),
    "half a head": (HEAD.encode()[:60], 408),
    "half a handshake": (b"GET /v1/audio/speech/stream HTTP/1.1\r\nUpgrade: websocket\r\n", 408),
    "half a body": ((HEAD + 'Content-Length: 400\r\n\r\n{"input": "').encode(), 408),
    "half a chunk": ((HEAD + "Transfer-Encoding: chunked\r\n\r\n40\r\n{").encode(), 408),
    "no HTTP": (bytes(range(256)) + b"\r\n\r\n", 400),
}
"""What a client sends before it goes silent, and the status of the error it then receives, if any."""
MAX_RUNNING = 4
STALLED = 2


@pytest.fixture(scope="module")
def short_timeouts(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with short timeouts."""
    limits = {"request_seconds": 2.0, "stalled_seconds": 2.0, "live_idle_seconds": 4.0, "max_running": MAX_RUNNING}
    config = write_config(tmp_path_factory.mktemp("short-timeouts"), pocket, limits=limits, default_voice="serena")
    with Serving(config) as server:
        yield server.ready()


def silent_client(server: Serving, data: bytes) -> socket.socket:
    """Connect, send ``data``, and send nothing more."""
    url = urlsplit(server.url)
    client = socket.create_connection((url.hostname, url.port), TIMEOUT)
    client.sendall(data)
    return client


def read_until_closed(client: socket.socket) -> bytes:
    """Everything the server sends until it closes the connection."""
    received = b""
    while data := client.recv(65_536):
        received += data
    return received


def open_live_session(server: Serving) -> ClientConnection:
    """A live session whose client does not wait for the closing handshake."""
    return connect(server.url.replace("http", "ws", 1) + f"{SPEECH}/stream", open_timeout=TIMEOUT, close_timeout=0.1)


def synthesize(server: Serving) -> bytes:
    with server.client() as client:
        return client.post(SPEECH, json=speech(max_new_tokens=40)).raise_for_status().content


def open_files(server: Serving) -> int:
    """Open files of all server processes."""
    return sum(each.num_fds() for each in server.processes().all)


def test_two_hundred_adversarial_clients_do_not_change_the_audio_of_others(short_timeouts: Serving) -> None:
    alone = synthesize(short_timeouts)
    short_timeouts.until_idle()
    files_before = open_files(short_timeouts)
    with ExitStack() as clients:
        for number in range(STALLED):
            clients.enter_context(short_timeouts.send_speech(endless(), f"stalled-{number}", window=4096))
        short_timeouts.until(busy)
        partial_requests = list(PARTIAL_REQUESTS.values())
        for number in range(200 - STALLED):
            clients.enter_context(silent_client(short_timeouts, partial_requests[number % len(partial_requests)][0]))
        assert [synthesize(short_timeouts) for _ in range(3)] == [alone] * 3
    for number in range(STALLED):
        short_timeouts.wait_for(rf"id=stalled-{number} status=499")
    short_timeouts.until_idle()
    short_timeouts.until(lambda _: open_files(short_timeouts) <= files_before)
    assert synthesize(short_timeouts) == alone


@pytest.mark.parametrize("name", PARTIAL_REQUESTS)
def test_the_server_disconnects_a_client_that_stops_in_the_middle_of_a_request(
    short_timeouts: Serving, name: str
) -> None:
    data, status = PARTIAL_REQUESTS[name]
    with silent_client(short_timeouts, data) as client:
        head, _, body = read_until_closed(client).partition(b"\r\n\r\n")
    if status is None:
        assert head == b""
        return
    assert int(head.split()[1]) == status
    error = json.loads(body)["error"]
    assert error["code"] == ("request_timeout" if status == 408 else "invalid_http")
    assert sorted(error) == ["code", "message", "param", "type"]


def test_a_request_that_trickles_in_byte_by_byte_times_out(short_timeouts: Serving) -> None:
    with silent_client(short_timeouts, PARTIAL_REQUESTS["half a body"][0]) as client:
        client.settimeout(0.05)
        received = b""
        while not received:
            try:
                client.sendall(b"a")
                received = client.recv(65_536)
            except TimeoutError:
                continue
    assert b" 408 " in received


def test_a_second_request_on_a_connection_times_out_too(short_timeouts: Serving) -> None:
    with silent_client(short_timeouts, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        client.sendall(b"GET /hea")
        assert b"HTTP/1.1 408 " in read_until_closed(client)


def test_a_live_session_may_outlast_the_request_timeout(short_timeouts: Serving) -> None:
    with open_live_session(short_timeouts) as live:
        with silent_client(short_timeouts, b"") as other:
            live.send(json.dumps({"type": "session.config", "response_format": "pcm", "max_new_tokens": 8}))
            assert read_until_closed(other) == b""
        live.send(json.dumps({"type": "input.text", "text": "Hello there, you. "}))
        assert json.loads(live.recv(timeout=TIMEOUT))["type"] == "audio.start"


@pytest.mark.parametrize("frame", [b"", b"\x81\xfe\x10\x00\0\0\0\0{"], ids=["silent", "half a frame"])
def test_an_idle_live_session_is_closed(short_timeouts: Serving, frame: bytes) -> None:
    with open_live_session(short_timeouts) as live:
        live.socket.sendall(frame)
        assert json.loads(live.recv(timeout=TIMEOUT))["error"]["code"] == "session_idle"
        with pytest.raises(ConnectionClosed):
            live.recv(timeout=TIMEOUT)
