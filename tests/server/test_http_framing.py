"""Unusual request lines, header and body framing, as only non-browser clients send them."""

from __future__ import annotations

import json

import pytest
from websockets.sync.client import connect as connect_websocket

from tests.server.live_client import live_url
from tests.server.raw_http import HEAD, connect, exchange, parse, parse_error, read_all
from tests.server.serving import SPEECH, TIMEOUT, Serving

CLOSE = "Connection: close\r\n\r\n"


def test_a_request_with_two_lengths_is_answered_and_the_connection_closed(serving: Serving) -> None:
    """RFC 9112, 6.1: data after such a request may be smuggled."""
    body = b'{"input": ""}'
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    head = (HEAD + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
    status, headers, answer = exchange(serving, head + chunked + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, headers["connection"]) == (400, "close")
    assert parse_error(answer)["param"] == "input"


@pytest.mark.parametrize("target", ["http://h:1/v1/models?a=b", "HTTPS://[::1]:80/v1/models"])
def test_serves_a_target_in_absolute_form(serving: Serving, target: str) -> None:
    status, _, answer = exchange(serving, f"GET {target} HTTP/1.1\r\nHost: other\r\n{CLOSE}".encode())
    assert status == 200
    assert json.loads(answer)["object"] == "list"


def test_the_authority_of_an_absolute_target_replaces_the_host(serving: Serving) -> None:
    """The Origin of a page is compared with the host of its request."""
    body = "Origin: http://localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + CLOSE + "{}"
    for authority, status in (("localhost", 400), ("other", 403)):
        request = f"POST http://{authority}{SPEECH} HTTP/1.1\r\nHost: localhost\r\n{body}"
        assert exchange(serving, request.encode())[0] == status


def test_a_websocket_may_have_an_absolute_target(serving: Serving) -> None:
    handshake = (
        f"GET http://localhost{SPEECH}/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with connect(serving, handshake.encode()) as client:
        assert client.recv(65_536).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    "line",
    ["GET ftp://x/health", "GET health", "GET http://", "GET http:///health", "GET http://u:p@x/", "GET http://é/"],
)
def test_refuses_an_invalid_target(serving: Serving, line: str) -> None:
    status, headers, answer = exchange(serving, f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (status, headers["connection"], parse_error(answer)["code"]) == (400, "close", "invalid_http")


@pytest.mark.parametrize("line", ["CONNECT x:443", "OPTIONS *"])
def test_refuses_connect_and_options_asterisk(serving: Serving, line: str) -> None:
    status, _, answer = exchange(serving, f"{line} HTTP/1.1\r\nHost: x\r\n{CLOSE}".encode())
    assert status in (404, 405)
    parse_error(answer)


@pytest.mark.parametrize(
    "data",
    [
        HEAD.encode() + b"X-Endless: " + b"a" * 100_000,
        HEAD.encode() + b"".join(b"X-%d: a\r\n" % number for number in range(20_000)),
        HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 400_000,
        HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-Trailer: a\r\n" * 30_000,
    ],
    ids=["a header", "headers", "a chunk's extension", "trailers"],
)
def test_headers_chunk_extensions_and_trailers_are_bounded(serving: Serving, data: bytes) -> None:
    """The server stops reading and closes the connection."""
    with connect(serving) as client, pytest.raises(ConnectionError):
        for _ in range(100):
            client.sendall(data)


def test_a_pipelining_client_that_never_reads_gets_back_pressure(serving: Serving) -> None:
    """The buffer of responses is bounded, so the server stops reading requests."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(serving, window=4096) as client:
        client.settimeout(1.0)
        with pytest.raises(TimeoutError):
            for _ in range(1000):
                client.sendall(request * 1000)
        client.settimeout(TIMEOUT)
        assert client.recv(12) == b"HTTP/1.1 200"


def test_accepting_trailers_does_not_break_keep_alive(serving: Serving) -> None:
    request = "GET /health HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n"
    with connect(serving, f"{request}\r\n{request}{CLOSE}".encode()) as client:
        answers = read_all(client)
    assert answers.count(b'{"status":"ok"}') == 2
    assert parse(answers)[0] == 200


def test_a_websocket_client_connects(serving: Serving) -> None:
    with connect_websocket(live_url(serving), open_timeout=TIMEOUT):
        pass


def test_refuses_a_body_of_tiny_chunks(serving: Serving) -> None:
    """Each chunk costs the event loop as much as a large one."""
    head = (HEAD + "Transfer-Encoding: chunked\r\n\r\n").encode()
    status, headers, answer = exchange(serving, head + b"1\r\nx\r\n" * 2000)
    assert (status, headers["connection"], parse_error(answer)["code"]) == (400, "close", "invalid_http")


def test_an_invalid_body_of_a_head_request_closes_the_connection(serving: Serving) -> None:
    request = b"HEAD /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"
    with connect(serving, request) as client:
        read_all(client)
    assert not [line for line in serving.lines if "LocalProtocolError" in line]


def test_a_long_url_that_arrives_in_small_parts_is_read(serving: Serving) -> None:
    request = f"GET /health?x={'a' * 60_000} HTTP/1.1\r\nHost: x\r\n{CLOSE}".encode()
    with connect(serving, request[:1400]) as client:
        for start in range(1400, len(request), 1400):
            client.sendall(request[start : start + 1400])
        assert parse(read_all(client))[0] == 200
