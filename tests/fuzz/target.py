"""The server under test, and a minimal HTTP client on a plain socket."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from tests.fuzz.recordings import recordings
from tests.fuzz.replies import Finding, Reply, parse_replies
from tests.server.recordings import tone, wav
from tests.server.serving import Serving, write_config

LARGE = 64 * 1024
"""Size in bytes of a body that the server may reject before it has read all of it."""
TIMEOUT = 60.0
"""Timeout in seconds of everything that must end."""
QUIET_SECONDS = 1.5
"""Seconds without data after which a connection with a reply counts as kept open by the server."""

Ending = Literal["end", "quiet", "reset"]


@dataclass
class Target:
    """A server, recordings in every format, and a folder with subfolders that the server may and may not read."""

    serving: Serving
    folder: Path
    files: dict[str, bytes] = field(default_factory=recordings)

    @property
    def host(self) -> str:
        """Value of the Host header."""
        return urlsplit(self.serving.url).netloc

    def connect(self) -> socket.socket:
        """Open a new connection."""
        url = urlsplit(self.serving.url)
        assert url.hostname == "127.0.0.1"
        assert url.port is not None
        return socket.create_connection((url.hostname, url.port), TIMEOUT)

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply | None:
        """Send a well-formed request and return its reply, or None if the connection broke before the body was sent."""
        headers = {"Host": self.host, "Connection": "close", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        message = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body
        with self.connect() as connection:
            sent = send(connection, message)
            received, ending = read_all(connection, TIMEOUT)
        if ending == "quiet":
            raise Finding(f"{method} {path}: the reply did not end: {received[:200]!r}")
        broken = not sent or ending == "reset"
        replies = parse_replies(received, (method,), complete=not broken)
        if not replies and (not broken or len(body) < LARGE):
            raise Finding(f"{method} {path}: no reply")
        return replies[0] if replies else None


def send(connection: socket.socket, data: bytes) -> bool:
    """Send the data and return whether the server accepted all of it."""
    try:
        connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def read_all(connection: socket.socket, quiet: float = QUIET_SECONDS) -> tuple[bytes, Ending]:
    """Read until the end, or until no data arrives for ``quiet`` seconds. Raises Finding if nothing arrives at all."""
    received = b""
    connection.settimeout(TIMEOUT)
    try:
        while data := connection.recv(1 << 18):
            received += data
            connection.settimeout(quiet)
    except ConnectionResetError:
        return received, "reset"
    except TimeoutError:
        if not received:
            raise Finding(f"neither a reply nor a disconnect within {TIMEOUT:g} s") from None
        return received, "quiet"
    return received, "end"


def reset(connection: socket.socket) -> None:
    """Close the connection with a reset (RST)."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def start(folder: Path, checkpoint: Path) -> Target:
    """Start a server with small limits, which attacks reach quickly, and its own folder for temporary files."""
    for name in ("tmp", "open", "closed"):
        (folder / name).mkdir()
    limits = {
        "request_seconds": 1.0,
        "live_idle_seconds": 1.0,
        "stalled_seconds": 2.0,
        "max_split_chars": 300,
        "max_batch_items": 4,
        "max_body_bytes": 2**20,
        "max_outcomes": 100,
    }
    config = write_config(
        folder,
        checkpoint,
        limits=limits,
        engine={"talker": {"context": 64}},
        voices={"max_voices": 8},
        references={"fetch_urls": False, "folders": [str(folder / "open")]},
        default_voice="serena",
    )
    target = Target(Serving(config, TMPDIR=str(folder / "tmp")), folder)
    (folder / "open" / "recording.wav").write_bytes(target.files["WAV/PCM_16"])
    (folder / "closed" / "recording.wav").write_bytes(wav(tone(1.5)[::-1] * 0.5))
    target.serving.ready()
    return target
