"""Resource exhaustion attacks: idle connections, memory for request bodies, memory for WebSocket pongs.

    python -m benchmarks.http.exhaustion connections | bodies | pongs

connections: 1,100 idle connections to a server with a limit of 1,024 open files, while a real-time client plays.
Prints whether the audio of that client was complete, whether another client could connect, and the size of the log.
bodies: 80 incomplete bodies of 16 MB. pongs: a WebSocket client that sends 400 MB of pings and never reads. Both print
how much the memory of the HTTP process grew.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.lib.processes import http_process
from tests.server.serving import SPEECH, Serving, endless, write_config
from tests.support.random_checkpoint import write_checkpoint

IDLE = 1100
FILES = 1024
BODIES, BODY_BYTES = 80, 16 * 1024 * 1024 - 1
PINGS_MB = 400
HOLD_S = 30.0
BYTES_PER_SECOND = 48_000
HANDSHAKE = (
    f"GET {SPEECH}/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class _FewFilesServer(Serving):
    """A server with the limits of ``ulimit -n 1024``."""

    program = (
        "-c",
        f"import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); "
        "runpy.run_module('server.cli.main', run_name='__main__')",
    )


def _connect(server: Serving, data: bytes = b"", window: int | None = None) -> socket.socket:
    url = urlsplit(server.url)
    client = socket.socket()
    client.settimeout(HOLD_S)
    if window:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.connect((url.hostname, url.port))
    client.sendall(data)
    return client


def _resident_mb(server: Serving) -> float:
    return float(http_process(server.process.pid).memory_info().rss) / 1e6


def _play(response: httpx.Response) -> int:
    """Read the audio in real time and return its number of bytes."""
    began, count = time.monotonic(), 0
    for piece in response.iter_raw(9600):
        count += len(piece)
        time.sleep(max(0.0, began + count / BYTES_PER_SECOND - time.monotonic()))
    return count


def connections(server: Serving) -> None:
    """Hold 1,100 idle connections for 30 s."""
    body = endless(max_new_tokens=400)  # 32 s
    with server.client() as client:
        alone = len(client.post(SPEECH, json=body, timeout=300).content)
    received: list[int | str] = []

    def play_stream() -> None:
        with server.client() as client:
            try:
                with client.stream("POST", SPEECH, json=body, timeout=300) as response:
                    received.append(_play(response))
            except httpx.HTTPError as error:
                received.append(type(error).__name__)

    real_time_client = threading.Thread(target=play_stream)
    real_time_client.start()
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(_connect(server))
        try:
            with server.client() as client:
                other = str(client.get("/health", timeout=10).status_code)
        except httpx.HTTPError as error:
            other = type(error).__name__
        time.sleep(HOLD_S)
    real_time_client.join()
    size = sum(len(line) + 1 for line in server.lines)
    tracebacks = sum("Traceback" in line for line in server.lines)
    print(
        f"real-time client: {received[0]} of {alone} bytes; another client: {other}; "
        f"log: {size} bytes, {tracebacks} tracebacks"
    )


def bodies(server: Serving) -> None:
    """Send 80 incomplete bodies."""
    before = _resident_mb(server)
    head = f"POST {SPEECH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    data = f"{head}Content-Length: {BODY_BYTES + 1}\r\n\r\n".encode() + b" " * BODY_BYTES
    with ExitStack() as stack:
        for _ in range(BODIES):
            with suppress(ConnectionError):
                stack.enter_context(_connect(server, data))
        time.sleep(5)
        print(f"{BODIES} incomplete bodies of {BODY_BYTES} bytes: {_resident_mb(server) - before:.0f} MB more")


def pongs(server: Serving) -> None:
    """Send pings without reading the pongs."""
    before = _resident_mb(server)
    ping = b"\x89\xfd\0\0\0\0" + bytes(125)
    with _connect(server, HANDSHAKE.encode(), window=4096) as client:
        client.recv(4096)
        for _ in range(PINGS_MB * 1_000_000 // (len(ping) * 1000)):
            client.sendall(ping * 1000)
        print(f"{PINGS_MB} MB of pings, nothing read: {_resident_mb(server) - before:.0f} MB more")


def main() -> None:
    """Start a server and run the selected attack."""
    parts = {"connections": connections, "bodies": bodies, "pongs": pongs}
    part = parts[sys.argv[1]]
    with tempfile.TemporaryDirectory() as name:
        write_checkpoint(Path(name) / "pocket", "pocket")
        kind = _FewFilesServer if part is connections else Serving
        with kind(write_config(Path(name), Path(name) / "pocket")) as server:
            part(server.ready())


if __name__ == "__main__":
    main()
