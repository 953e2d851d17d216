"""HTTP byte by byte, for requests that no client library sends."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.server.serving import SPEECH, TIMEOUT, Serving

HEAD = f"POST {SPEECH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def connect(server: Serving, data: bytes = b"", source: str = "127.0.0.1", window: int | None = None) -> socket.socket:
    """Open a connection and send ``data``.

    Args:
        server: the server to connect to.
        data: bytes to send.
        source: source address; on Linux all of 127.0.0.0/8 is local.
        window: receive buffer of the client in bytes.
    """
    url = urlsplit(server.url)
    client = socket.socket()
    client.settimeout(TIMEOUT)
    if window is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.bind((source, 0))
    client.connect((url.hostname, url.port))
    client.sendall(data)
    return client


def read_all(client: socket.socket) -> bytes:
    """Read until the server closes the connection. Raises ConnectionResetError."""
    received = b""
    while data := client.recv(65_536):
        received += data
    return received


def read_response(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one response with a Content-Length from a connection that may stay open."""
    received = b""
    while True:
        data = client.recv(65_536)
        assert data, f"closed after {received!r}"
        received += data
        if b"\r\n\r\n" in received:
            status, headers, body = parse(received)
            if len(body) >= int(headers["content-length"]):
                return status, headers, body


def hold_request(server: Serving, source: str = "127.0.0.1") -> socket.socket:
    """Open a connection with a request in progress, of which the server has read everything but the body."""
    head = HEAD + "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    client = connect(server, head.encode(), source)
    assert client.recv(65_536).startswith(b"HTTP/1.1 100 ")
    return client


def exchange(server: Serving, data: bytes, source: str = "127.0.0.1") -> tuple[int, dict[str, str], bytes]:
    """Send ``data`` and read until the connection closes. Returns status, headers with lower-case names, and body."""
    with connect(server, data, source) as client:
        return parse(read_all(client))


def parse(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a response; a chunked body is not decoded."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), headers, body


def parse_error(body: bytes) -> dict[str, Any]:
    """The error in a response body; asserts the common error format."""
    found: dict[str, Any] = json.loads(body)["error"]
    assert sorted(found) == ["code", "message", "param", "type"]
    return found


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed the connection without an answer. Never blocks."""
    client.setblocking(False)
    with suppress(BlockingIOError):
        return client.recv(1) == b""
    return False
