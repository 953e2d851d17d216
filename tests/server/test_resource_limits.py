"""Limits on what all clients together, and each of them, hold: connections, bytes of bodies, queued bytes."""

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
from tests.server.raw_http import connect, error, exchange, hold, is_closed, parse, read_all, read_answer
from tests.server.recordings import tone, wav
from tests.server.serving import PATIENCE, SPEECH, Serving, write_config
from tests.server.test_http_framing import CLOSE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")

MOST = 20
MOST_OF_ONE = 15
LARGE = 1600 * 1024
"""Bytes of a body of which one client may have one and all together two."""
OTHER = "127.0.0.2"
HEALTH = f"GET /health HTTP/1.1\r\nHost: x\r\n{CLOSE}".encode()


@pytest.fixture(scope="module")
def small(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with small limits."""
    limits = {
        "max_connections": MOST,
        "connection_share": MOST_OF_ONE / MOST,
        "client_share": MOST_OF_ONE / MOST,
        "max_body_bytes": 2 * 1024 * 1024,
        "max_bodies_bytes": 4 * 1024 * 1024,
    }
    folder = tmp_path_factory.mktemp("small")
    (folder / "temporary").mkdir()
    config = write_config(folder, pocket, limits=limits, default_voice="serena")
    with Serving(config, TMPDIR=str(folder / "temporary")) as server:
        yield server.ready()


def is_healthy(server: Serving, source: str = "127.0.0.1") -> bool:
    return exchange(server, HEALTH, source)[0] == 200


def body_of(size: int, path: str = SPEECH, kind: str = "application/json") -> bytes:
    """A request of which ``size`` bytes of the body are sent, and one is not."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {size + 1}\r\n\r\n"
    return head.encode() + b" " * size


def multipart_of(size: int) -> bytes:
    """A form with half a recording."""
    part = b'--b\r\nContent-Disposition: form-data; name="audio_sample"; filename="a.wav"\r\n\r\n'
    return body_of(0, "/v1/audio/voices/embedding", "multipart/form-data; boundary=b").replace(
        b"Length: 1", b"Length: %d" % (len(part) + size + 1)
    ) + (part + b"a" * size)


def upload(server: Serving, seconds: float) -> tuple[int, bytes]:
    with server.client() as client:
        sample = ("a.wav", wav(tone(seconds)))
        answer = client.post("/v1/audio/voices/embedding", files={"audio_sample": sample})
    return answer.status_code, answer.content


def live(server: Serving) -> ClientConnection:
    return connect_websocket(live_url(server), open_timeout=PATIENCE, close_timeout=0.1)


def client_frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def until_held(server: Serving, least: int, most: int = sys.maxsize) -> None:
    """Wait until so many bytes of bodies are counted."""
    deadline = time.monotonic() + PATIENCE
    with server.client() as client:
        while True:
            page = client.get("/metrics").text
            held = float(page.partition("\nsonant_body_bytes ")[2].partition("\n")[0])
            if least <= held <= most:
                return
            assert time.monotonic() < deadline, f"{held} bytes are held"


def test_idle_connections_make_room_the_longest_idle_first(small: Serving) -> None:
    with ExitStack() as crowd:
        kept_alive = crowd.enter_context(connect(small, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert read_answer(kept_alive)[0] == 200
        silent = [crowd.enter_context(connect(small)) for _ in range(2 * MOST_OF_ONE)]
        assert is_healthy(small)
        assert kept_alive.recv(1) == b""
        assert silent[0].recv(1) == b""
        assert not is_closed(silent[-1])


def test_without_an_idle_one_the_next_is_told_that_the_server_is_busy(small: Serving) -> None:
    with ExitStack() as crowd:
        for _ in range(MOST_OF_ONE):
            crowd.enter_context(hold(small))
        for request in (b"", HEALTH):
            status, headers, body = exchange(small, request)
            assert (status, headers["connection"], error(body)["code"]) == (503, "close", "server_busy")
            assert int(headers["retry-after"]) > 0
        assert is_healthy(small, OTHER)
        for _ in range(MOST - MOST_OF_ONE):
            crowd.enter_context(hold(small, OTHER))
        assert exchange(small, HEALTH, "127.0.0.3")[0] == 503
    assert is_healthy(small)


def test_a_websocket_is_a_connection_that_is_not_idle(small: Serving) -> None:
    with ExitStack() as crowd:
        sessions = [crowd.enter_context(live(small)) for _ in range(MOST_OF_ONE)]
        assert exchange(small, HEALTH)[0] == 503
        sessions.pop().close()
        assert is_healthy(small)


@pytest.mark.parametrize("request_of", [body_of, multipart_of])
def test_half_sent_bodies_are_counted_for_all_and_for_each_client(small: Serving, request_of) -> None:
    until_held(small, 0, most=0)
    with connect(small, request_of(LARGE)) as mine, connect(small, request_of(LARGE), OTHER) as theirs:
        until_held(small, 2 * LARGE)
        for source in ("127.0.0.1", OTHER, "127.0.0.3"):
            with connect(small, request_of(LARGE), source) as refused:
                status, headers, body = read_answer(refused)
                assert (status, error(body)["code"]) == (503, "server_busy")
                assert int(headers["retry-after"]) > 0
        with small.client() as client:
            assert client.post(SPEECH, json={"input": ""}).status_code == 400
        assert not is_closed(mine)
        assert not is_closed(theirs)
    until_held(small, 0, most=0)


def test_one_client_has_its_share_of_them(small: Serving) -> None:
    until_held(small, 0, most=0)
    with connect(small, body_of(LARGE)):
        until_held(small, LARGE)
        with connect(small, body_of(LARGE)) as refused:
            assert read_answer(refused)[0] == 503
        with connect(small, body_of(LARGE) + b" ", OTHER) as other:
            assert read_answer(other)[0] == 400


@pytest.mark.parametrize(
    "frames",
    [
        client_frame(Opcode.BINARY, b" " * LARGE)[:-1],
        client_frame(Opcode.BINARY, b" " * LARGE, fin=False) + client_frame(Opcode.CONT, b"", fin=False) * 10,
        client_frame(Opcode.BINARY, b" ", fin=False) + client_frame(Opcode.CONT, b"", fin=False) * (LARGE // 64),
    ],
    ids=["a frame", "a message", "empty fragments"],
)
def test_half_sent_messages_are_counted_too(small: Serving, frames: bytes) -> None:
    until_held(small, 0, most=0)
    with live(small) as first, live(small) as second:
        first.socket.sendall(frames)
        until_held(small, LARGE)
        second.socket.sendall(frames)
        assert error(second.recv(timeout=PATIENCE))["code"] == "server_busy"
        with pytest.raises(ConnectionClosedError) as closed:
            second.recv(timeout=PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013


def test_a_session_keeps_its_large_message_and_counts_it(small: Serving) -> None:
    until_held(small, 0, most=0)
    config = json.dumps({"type": "session.config", "ref_audio": "data:audio/wav;base64," + "A" * LARGE})
    with live(small) as first:
        first.send(config)
        until_held(small, LARGE)
    until_held(small, 0, most=0)


def test_pongs_do_not_pile_up_for_a_client_that_does_not_read(small: Serving) -> None:
    """Only the latest ping must be answered (RFC 6455, 5.5.3)."""
    pings = 100_000
    block = client_frame(Opcode.PING, bytes(125)) * 1000
    handshake = (
        f"GET {SPEECH}/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with connect(small, handshake.encode(), window=4096) as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 101 ")
        for _ in range(pings // 1000):
            client.sendall(block)
        last = Frame(Opcode.PONG, b"the latest").serialize(mask=False)
        client.sendall(client_frame(Opcode.PING, b"the latest"))
        received = 0
        tail = b""
        while not tail.endswith(last):
            data = client.recv(1 << 20)
            assert data, "closed"
            received += len(data)
            tail = (tail + data)[-len(last) :]
    assert received < pings * 127 // 2


def test_running_out_of_descriptors_is_one_line_in_the_log(small: Serving) -> None:
    process = http_process(small.process.pid)
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds(), before[1]))
    try:
        with ExitStack() as crowd:
            waiting = [crowd.enter_context(connect(small, HEALTH)) for _ in range(8)]
            small.wait_for(r"accept\(\) failed")
            process.rlimit(psutil.RLIMIT_NOFILE, before)
            assert [parse(read_all(each))[0] for each in waiting] == [200] * 8
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, before)
    lines = [line for line in small.lines if "accept" in line]
    assert len(lines) == 1
    assert not any("Traceback" in line for line in small.lines)


def test_the_limit_on_open_files_is_raised(small: Serving) -> None:
    soft, hard = http_process(small.process.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard if hard != resource.RLIM_INFINITY else 65_536, 65_536)


def test_a_refused_client_that_goes_on_sending_reads_why(small: Serving) -> None:
    with ExitStack() as crowd:
        for _ in range(MOST_OF_ONE):
            crowd.enter_context(hold(small))
        with connect(small, body_of(200_000)) as client:
            client.shutdown(socket.SHUT_WR)
            assert parse(read_all(client))[0] == 503


def test_an_upload_that_cannot_be_spooled_is_insufficient_storage(small: Serving) -> None:
    """What is above 1 MB goes to a temporary file."""
    seconds = 34.0  # 1.1 MB, which is too long for a voice, as the server says once it has it
    assert error(upload(small, seconds)[1])["code"] == "reference_too_long"
    folder = small.folder / "temporary"
    folder.rmdir()
    folder.touch()
    status, body = upload(small, seconds)
    assert (status, error(body)["code"]) == (507, "insufficient_storage")
    small.wait_for("an upload cannot be written to the folder for temporary files: ")
    assert not any("Traceback" in line for line in small.lines)
    assert upload(small, 1.6)[0] == 200
