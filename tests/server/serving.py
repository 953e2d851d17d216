"""A real `sonant serve` process and helpers to query it."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import yaml

from benchmarks.lib.processes import Processes, processes

ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0
SPEECH = "/v1/audio/speech"
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""``verify`` of HTTP clients. By default each loads all certificate authorities, which takes 25 ms of CPU time."""


class Serving:
    """A server process. Its log is collected as it is written, so tests wait for log lines instead of sleeping."""

    program = ("-m", "server.cli")
    """Python's arguments for ``sonant``."""

    def __init__(self, config: Path, *flags: str, **variables: str) -> None:
        command = [sys.executable, *self.program, "serve", "--config", str(config), "--port", "0", *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SONANT_")}
        self.folder = config.parent
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment, **variables, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.headers: dict[str, str] = {}
        self._log_changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.wait_for(r"on (http://[^\s\"]+)").group(1)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._log_changed:
                self.lines.append(line.rstrip("\n"))
                self._log_changed.notify_all()
        with self._log_changed:
            self._ended = True
            self._log_changed.notify_all()

    def wait_for(self, pattern: str, timeout: float = TIMEOUT) -> re.Match[str]:
        """The first match in the log, past or future."""
        found: list[re.Match[str]] = []
        seen = 0

        def search() -> bool:
            nonlocal seen
            new, seen = self.lines[seen:], len(self.lines)
            found.extend(match for line in new if (match := re.search(pattern, line)))
            return bool(found) or self._ended

        with self._log_changed:
            self._log_changed.wait_for(search, timeout)
        assert found, f"no {pattern!r} in the server's log:\n" + "\n".join(self.lines)
        return found[0]

    def ready(self) -> Self:
        """Wait until the checkpoint is loaded."""
        self.wait_for(r"is ready on")
        return self

    def processes(self) -> Processes:
        """The server's processes by role; waits for the engine process."""
        return processes(self.process.pid)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=TIMEOUT, verify=NO_CERTIFICATES)

    def stats(self) -> dict[str, Any]:
        """The statistics of the whole pipeline, from ``/ready``."""
        with self.client() as client:
            stats: dict[str, Any] = client.get("/ready").raise_for_status().json()
        return stats

    def until(self, condition: Any) -> dict[str, Any]:
        """Poll the stats until ``condition`` holds, and return them."""
        deadline = time.monotonic() + TIMEOUT
        while not condition(stats := self.stats()):
            assert time.monotonic() < deadline, f"condition never met: {stats}"
            time.sleep(0.02)
        return stats

    def until_ready(self) -> None:
        """Wait until ``/ready`` answers 200, also after an engine restart."""
        deadline = time.monotonic() + TIMEOUT
        with self.client() as client:
            while client.get("/ready").status_code != 200:
                assert time.monotonic() < deadline, "\n".join(self.lines)
                time.sleep(0.02)

    def until_not_ready(self, code: str | None, client: httpx.Client | None = None) -> None:
        """Wait until ``/ready`` answers 503, with this error code unless it is None."""
        deadline = time.monotonic() + TIMEOUT
        with self.client() if client is None else nullcontext(client) as asking:
            while (answer := asking.get("/ready")).status_code != 503:
                assert time.monotonic() < deadline, "\n".join(self.lines)
                time.sleep(0.02)
        assert code in (None, answer.json()["error"]["code"])

    def until_idle(self) -> dict[str, Any]:
        """Wait until no request, slot or decoder row is in use."""
        return self.until(lambda stats: not busy(stats))

    def until_engine_idle(self) -> None:
        """Wait until the engine uses no CPU: every stream is paused by back-pressure, or no request is left."""
        family = self.processes().engine
        deadline = time.monotonic() + TIMEOUT
        used = -1.0
        while used != (used := sum(sum(process.cpu_times()[:2]) for process in family)):
            assert time.monotonic() < deadline, "the engine never becomes idle"
            time.sleep(0.5)

    @contextmanager
    def send_speech(
        self, body: dict[str, Any], name: str, window: int | None = None, path: str = SPEECH, of: float = 1.0
    ) -> Iterator[socket.socket]:
        """Send a speech request and read nothing of its response.

        ``window``: receive buffer in bytes; ``of``: fraction of the request to send.
        """
        data = json.dumps(body).encode()
        address = urlsplit(self.url)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
            f"X-Request-Id: {name}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        with socket.socket() as connection:
            connection.settimeout(TIMEOUT)
            if window:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            connection.connect((address.hostname, address.port))
            request = head.encode() + data
            connection.sendall(request[: int(len(request) * of)])
            yield connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(TIMEOUT)
            raise
        finally:
            self._reader.join(TIMEOUT)
            assert self.process.stdout is not None
            self.process.stdout.close()


class ScriptedServing(Serving):
    """A server process that loads no checkpoint and speaks a tone: it starts in a second."""

    program = ("-m", "tests.support.scripted_server")


def busy(stats: dict[str, Any]) -> int:
    """The number of requests, slots and decoder rows in use."""
    engine = stats["engine"]
    names = ("talker_slots", "talker_waiting", "code2wav_rows")
    return int(stats["requests"]) + sum(int(engine[name]) for name in names)


def engine_settings(checkpoint: Path, **settings: Any) -> dict[str, Any]:
    """The settings of an engine that starts fast: it measures nothing, and Code2Wav has compiled kernels."""
    return {
        "model": str(checkpoint),
        "device": "cpu",
        "threads": 1,
        **settings,
        "talker": {"weights": "exact", **settings.get("talker", {})},
        "code2wav": {"dtype": "int16", **settings.get("code2wav", {})},
    }


def write_config(folder: Path, checkpoint: Path, **settings: Any) -> Path:
    """Write a configuration file for ``checkpoint``."""
    engine = engine_settings(checkpoint, **settings.pop("engine", {}))
    path = folder / "sonant.yaml"
    voices = {"folder": str(folder / "voices"), **settings.pop("voices", {})}
    path.write_text(yaml.safe_dump({"served_name": "pocket", "engine": engine, "voices": voices, **settings}))
    return path


def speech(**fields: Any) -> dict[str, Any]:
    """The body of a short, reproducible request."""
    return {"input": "Hello there.", "response_format": "pcm", "seed": 7, "max_new_tokens": 24, **fields}


LOOPING = {"temperature": 0, "subtalker_temperature": 0, "repetition_penalty": 0.1}
"""Sampling parameters that repeat tokens: generation never reaches the end token by itself."""


def endless(**fields: Any) -> dict[str, Any]:
    """The body of a request that speaks for minutes unless it is stopped."""
    return speech(**{**LOOPING, "max_new_tokens": 4000, **fields})


@contextmanager
def streamed(client: httpx.Client, body: dict[str, Any], **headers: str) -> Iterator[httpx.Response]:
    """Send a speech request and read the response piece by piece."""
    with client.stream("POST", SPEECH, json=body, headers=headers) as response:
        yield response
