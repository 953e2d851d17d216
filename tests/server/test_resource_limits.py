"""Limits for all clients together and for each client: connections, body bytes, queued bytes."""

from __future__ import annotations

import json
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_websocket

from benchmarks.lib.processes import http_process
from tests.server.live_client import live_url
from tests.server.raw_http import (
    connect,
    exchange,
    hold_request,
    is_closed,
    parse,
    parse_error,
    read_all,
    read_response,
)
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, TIMEOUT, ScriptedServing, Serving, write_config
from tests.server.test_http_framing import CLOSE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")

MAX_CONNECTIONS = 20
MAX_PER_CLIENT = 15
LARGE = 1600 * 1024
"""Body size in bytes of which one client may have one in flight, and all clients together two."""
OTHER = "127.0.0.2"
HEALTH = f"GET /health HTTP/1.1\r\nHost: x\r\n{CLOSE}".encode()


@pytest.fixture(scope="module")
def small_limits(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with low limits."""
    limits = {
        "max_connections": MAX_CONNECTIONS,
        "connection_share": MAX_PER_CLIENT / MAX_CONNECTIONS,
        "client_share": MAX_PER_CLIENT / MAX_CONNECTIONS,
        "max_body_bytes": 2 * 1024 * 1024,
        "max_bodies_bytes": 4 * 1024 * 1024,
    }
    folder = tmp_path_factory.mktemp("small-limits")
    (folder / "temporary").mkdir()
    config = write_config(folder, pocket, limits=limits, default_voice="serena")
    with ScriptedServing(config, TMPDIR=str(folder / "temporary")) as server:
        yield server.ready()


def is_healthy(server: Serving, source: str = "127.0.0.1") -> bool:
    return exchange(server, HEALTH, source)[0] == 200


def request_without_last_byte(size: int, path: str = SPEECH, kind: str = "application/json") -> bytes:
    """A request with a body of ``size`` + 1 bytes, of which the last is not sent."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {size + 1}\r\n\r\n"
    return head.encode() + b" " * size


def form_without_last_part(size: int) -> bytes:
    """A form with an incomplete recording."""
    part = b'--b\r\nContent-Disposition: form-data; name="audio_sample"; filename="a.wav"\r\n\r\n'
    return request_without_last_byte(0, "/v1/audio/voices/embedding", "multipart/form-data; boundary=b").replace(
        b"Length: 1", b"Length: %d" % (len(part) + size + 1)
    ) + (part + b"a" * size)


def upload(server: Serving, seconds: float) -> tuple[int, bytes]:
    with server.client() as client:
        sample = ("a.wav", wav(tone(seconds)))
        answer = client.post("/v1/audio/voices/embedding", files={"audio_sample": sample})
    return answer.status_code, answer.content


def open_session(server: Serving) -> ClientConnection:
    return connect_websocket(live_url(server), open_timeout=TIMEOUT, close_timeout=0.1)


def client_frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def until_held(server: Serving, min_bytes: int, most: int = sys.maxsize) -> None:
    """Wait until the number of body bytes in memory is in the range."""
    deadline = time.monotonic() + TIMEOUT
    with server.client() as client:
        while True:
            page = client.get("/metrics").text
            counted = float(page.partition("\nsonant_body_bytes ")[2].partition("\n")[0])
            if min_bytes <= counted <= most:
                return
            assert time.monotonic() < deadline, f"{counted} bytes are counted"


def test_a_new_connection_evicts_the_longest_idle_one(small_limits: Serving) -> None:
    with ExitStack() as connections:
        kept_alive = connections.enter_context(connect(small_limits, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert read_response(kept_alive)[0] == 200
        silent = [connections.enter_context(connect(small_limits)) for _ in range(2 * MAX_PER_CLIENT)]
        assert is_healthy(small_limits)
        assert kept_alive.recv(1) == b""
        assert silent[0].recv(1) == b""
        assert not is_closed(silent[-1])


def test_without_an_idle_connection_the_next_one_gets_a_503(small_limits: Serving) -> None:
    with ExitStack() as connections:
        for _ in range(MAX_PER_CLIENT):
            connections.enter_context(hold_request(small_limits))
        for request in (b"", HEALTH):
            status, headers, body = exchange(small_limits, request)
            assert (status, headers["connection"], parse_error(body)["code"]) == (503, "close", "server_busy")
            assert int(headers["retry-after"]) > 0
        assert is_healthy(small_limits, OTHER)
        for _ in range(MAX_CONNECTIONS - MAX_PER_CLIENT):
            connections.enter_context(hold_request(small_limits, OTHER))
        assert exchange(small_limits, HEALTH, "127.0.0.3")[0] == 503
    assert is_healthy(small_limits)


def test_an_open_websocket_is_never_idle(small_limits: Serving) -> None:
    with ExitStack() as connections:
        sessions = [connections.enter_context(open_session(small_limits)) for _ in range(MAX_PER_CLIENT)]
        assert exchange(small_limits, HEALTH)[0] == 503
        sessions.pop().close()
        assert is_healthy(small_limits)


@pytest.mark.parametrize("request_of", [request_without_last_byte, form_without_last_part])
def test_incomplete_bodies_count_against_the_total_and_the_client_limit(small_limits: Serving, request_of) -> None:
    until_held(small_limits, 0, most=0)
    with connect(small_limits, request_of(LARGE)) as mine, connect(small_limits, request_of(LARGE), OTHER) as theirs:
        until_held(small_limits, 2 * LARGE)
        for source in ("127.0.0.1", OTHER, "127.0.0.3"):
            with connect(small_limits, request_of(LARGE), source) as refused:
                status, headers, body = read_response(refused)
                assert (status, parse_error(body)["code"]) == (503, "server_busy")
                assert int(headers["retry-after"]) > 0
        with small_limits.client() as client:
            assert client.post(SPEECH, json={"input": ""}).status_code == 400
        assert not is_closed(mine)
        assert not is_closed(theirs)
    until_held(small_limits, 0, most=0)


def test_incomplete_bodies_are_limited_for_each_client(small_limits: Serving) -> None:
    until_held(small_limits, 0, most=0)
    with connect(small_limits, request_without_last_byte(LARGE)):
        until_held(small_limits, LARGE)
        with connect(small_limits, request_without_last_byte(LARGE)) as refused:
            assert read_response(refused)[0] == 503
        with connect(small_limits, request_without_last_byte(LARGE) + b" ", OTHER) as other:
            assert read_response(other)[0] == 400


@pytest.mark.parametrize(
    "frames",
    [
        client_frame(Opcode.BINARY, b" " * LARGE)[:-1],
        client_frame(Opcode.BINARY, b" " * LARGE, fin=False) + client_frame(Opcode.CONT, b"", fin=False) * 10,
        client_frame(Opcode.BINARY, b" ", fin=False) + client_frame(Opcode.CONT, b"", fin=False) * (LARGE // 64),
    ],
    ids=["a frame", "a message", "empty fragments"],
)
def test_incomplete_websocket_messages_are_counted(small_limits: Serving, frames: bytes) -> None:
    until_held(small_limits, 0, most=0)
    with open_session(small_limits) as first, open_session(small_limits) as second:
        first.socket.sendall(frames)
        until_held(small_limits, LARGE)
        second.socket.sendall(frames)
        assert parse_error(second.recv(timeout=TIMEOUT))["code"] == "server_busy"
        with pytest.raises(ConnectionClosedError) as closed:
            second.recv(timeout=TIMEOUT)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013


def test_a_large_live_configuration_is_counted(small_limits: Serving) -> None:
    until_held(small_limits, 0, most=0)
    config = json.dumps({"type": "session.config", "ref_audio": "data:audio/wav;base64," + "A" * LARGE})
    with open_session(small_limits) as first:
        first.send(config)
        until_held(small_limits, LARGE)
    until_held(small_limits, 0, most=0)


def test_pongs_are_not_queued_for_a_client_that_does_not_read(small_limits: Serving) -> None:
    """Only the latest ping must be answered (RFC 6455, 5.5.3)."""
    pings = 100_000
    block = client_frame(Opcode.PING, bytes(125)) * 1000
    handshake = (
        f"GET {SPEECH}/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with connect(small_limits, handshake.encode(), window=4096) as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 101 ")
        for _ in range(pings // 1000):
            client.sendall(block)
        last = Frame(Opcode.PONG, b"the latest").serialize(mask=False)
        client.sendall(client_frame(Opcode.PING, b"the latest"))
        received = 0
        tail = b""
        while not tail.endswith(last):
            data = client.recv(1 << 20)
            assert data, f"closed after {received} bytes, the last of which are {tail!r}"
            received += len(data)
            tail = (tail + data)[-200:]
    assert received < pings * 127 // 2


def test_running_out_of_file_descriptors_logs_one_line(small_limits: Serving) -> None:
    process = http_process(small_limits.process.pid)
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (1, before[1]))  # open files stay open, whatever earlier clients still close
    try:
        with ExitStack() as connections:
            waiting = [connections.enter_context(connect(small_limits, HEALTH)) for _ in range(8)]
            small_limits.wait_for(r"accept\(\) failed")
            process.rlimit(psutil.RLIMIT_NOFILE, before)
            assert [parse(read_all(each))[0] for each in waiting] == [200] * 8
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, before)
    lines = [line for line in small_limits.lines if "accept" in line]
    assert len(lines) == 1
    assert not any("Traceback" in line for line in small_limits.lines)


def test_the_limit_on_open_files_is_raised(small_limits: Serving) -> None:
    soft, hard = http_process(small_limits.process.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard if hard != resource.RLIM_INFINITY else 65_536, 65_536)


def test_a_refused_client_that_keeps_sending_receives_the_error(small_limits: Serving) -> None:
    with ExitStack() as connections:
        for _ in range(MAX_PER_CLIENT):
            connections.enter_context(hold_request(small_limits))
        with connect(small_limits, request_without_last_byte(200_000)) as client:
            client.shutdown(socket.SHUT_WR)
            assert parse(read_all(client))[0] == 503


def test_an_upload_that_cannot_be_spooled_is_a_507(small_limits: Serving) -> None:
    """Uploads above 1 MB are spooled to a temporary file."""
    seconds = 34.0  # 1.1 MB; too long for a voice, which the server reports after it has received the file
    assert parse_error(upload(small_limits, seconds)[1])["code"] == "reference_too_long"
    folder = small_limits.folder / "temporary"
    folder.rmdir()
    folder.touch()
    status, body = upload(small_limits, seconds)
    assert (status, parse_error(body)["code"]) == (507, "insufficient_storage")
    small_limits.wait_for("an upload cannot be written to the folder for temporary files: ")
    assert not any("Traceback" in line for line in small_limits.lines)
    assert upload(small_limits, 1.6)[0] == 200
