"""The server that is attacked, and the plainest of clients."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from tests.fuzz.answers import Answer, Found, answers
from tests.fuzz.recordings import recordings
from tests.server.recordings import tone, wav
from tests.server.serving import Serving, write_config

LARGE = 64 * 1024
"""Bytes of a body of which the server may not read all before it answers."""
PATIENCE = 60.0
"""Whatever takes longer has no end."""
QUIET = 1.5
"""A connection on which nothing comes for so long, after something has, is left open on purpose."""

Ending = Literal["end", "quiet", "reset"]


@dataclass
class Target:
    """A server, a recording in every format, and the folders that it may and may not read from."""

    serving: Serving
    folder: Path
    files: dict[str, bytes] = field(default_factory=recordings)

    @property
    def host(self) -> str:
        """As a request names it."""
        return urlsplit(self.serving.url).netloc

    def connect(self) -> socket.socket:
        """A fresh connection."""
        url = urlsplit(self.serving.url)
        assert url.hostname == "127.0.0.1"
        assert url.port is not None
        return socket.create_connection((url.hostname, url.port), PATIENCE)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer | None:
        """The one reply to a well-formed request; None where the connection broke before its body was sent."""
        named = {"Host": self.host, "Connection": "close", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
        request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body
        with self.connect() as connection:
            sent = send(connection, request)
            received, how = read_all(connection, PATIENCE)
        if how == "quiet":
            raise Found(f"{method} {path}: no end of the reply {received[:200]!r}")
        broken = not sent or how == "reset"
        found = answers(received, (method,), whole=not broken)
        if not found and (not broken or len(body) < LARGE):
            raise Found(f"{method} {path}: no reply")
        return found[0] if found else None


def send(connection: socket.socket, data: bytes) -> bool:
    """Whether all of it was taken."""
    try:
        connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def read_all(connection: socket.socket, quiet: float = QUIET) -> tuple[bytes, Ending]:
    """What comes until the end, or until nothing more has come for ``quiet`` seconds. Raises Found for nothing."""
    received = b""
    connection.settimeout(PATIENCE)
    try:
        while data := connection.recv(1 << 18):
            received += data
            connection.settimeout(quiet)
    except ConnectionResetError:
        return received, "reset"
    except TimeoutError:
        if not received:
            raise Found("neither a reply nor an end") from None
        return received, "quiet"
    return received, "end"


def vanish(connection: socket.socket) -> None:
    """Break the connection off."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def start(folder: Path, checkpoint: Path) -> Target:
    """A server with small bounds, so that much can be tried in a short time. Its temporary files have a folder."""
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
