"""Stand-ins for the speech server and the player that scripts/tts-stream uses."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

FIRST = b"\x00\x01" * 20
REST = bytes(range(256)) * 40
TIMEOUT = 30.0

PLAYER = f"""#!{sys.executable}
import os, sys, urllib.request
tell = lambda path, body: urllib.request.urlopen(os.environ["STAND_IN"] + path, body, timeout=20).close()
audio = os.read(0, 65536)
tell("/first-audio", " ".join([str(os.getpid()), *sys.argv[1:]]).encode())
while more := os.read(0, 65536):
    audio += more
tell("/played", audio)
"""


@dataclass
class StandIn:
    """A speech server with a configured response that records its requests."""

    url: str = ""
    status: int = 200
    content_type: str = "audio/pcm"
    sample_rate: int | None = 24_000
    error: bytes = b""
    waits_for_player: bool = False
    cut_short: bool = False
    never_ends: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    player: int = 0
    player_arguments: list[str] = field(default_factory=list)
    played: bytes | None = None
    started_in_time: bool = False
    player_started: threading.Event = field(default_factory=threading.Event)
    client_left: threading.Event = field(default_factory=threading.Event)


def handler_of(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/first-audio":
                pid, *stand_in.player_arguments = body.decode().split(" ")
                stand_in.player = int(pid)
                stand_in.player_started.set()
                self.answer(200, "text/plain", b"")
            elif self.path == "/played":
                stand_in.played = body
                self.answer(200, "text/plain", b"")
            elif self.path == "/v1/audio/speech":
                stand_in.headers.append(dict(self.headers))
                stand_in.requests.append(json.loads(body))
                self.speak()

        def answer(self, status, content_type, body):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def speak(self):
            if stand_in.error:
                self.answer(stand_in.status, stand_in.content_type, stand_in.error)
                return
            self.send_response(stand_in.status)
            self.send_header("Content-Type", stand_in.content_type)
            if stand_in.sample_rate is not None:
                self.send_header("X-Sample-Rate", str(stand_in.sample_rate))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(FIRST)
            if stand_in.waits_for_player:
                stand_in.started_in_time = stand_in.player_started.wait(TIMEOUT)
            if stand_in.never_ends:
                with suppress(ConnectionError):
                    self.connection.settimeout(TIMEOUT)
                    self.connection.recv(1)
                stand_in.client_left.set()
                self.close_connection = True
                return
            self.chunk(REST)
            if stand_in.cut_short:
                self.close_connection = True
            else:
                self.chunk(b"")

        def chunk(self, data):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

        def log_message(self, format, *args):
            pass

    return Handler
