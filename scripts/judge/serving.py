"""Starts a server with ``make serve``, as users do."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from scripts.judge.paths import ROOT

_TIMEOUT_S = 120.0
_POLL_S = 0.02
_HOST = "127.0.0.1"


class ServedCheckpoint:
    """A server that runs until the context is left. ready_s: seconds from the start until ``/ready`` succeeded."""

    def __init__(self, checkpoint: Path, log: Path) -> None:
        self.port = _free_port()
        arguments = f"ARGS=--port {self.port} --model {checkpoint.absolute()}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SONANT_", "MAKE"))}
        self._log = log.open("w")
        began = time.monotonic()
        self._process = subprocess.Popen(
            ["make", "--no-print-directory", "serve", arguments],
            cwd=ROOT,
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._wait_ready(began + _TIMEOUT_S)
        except BaseException:
            self._stop()
            raise
        self.ready_s = time.monotonic() - began

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection."""
        return http.client.HTTPConnection(_HOST, self.port, timeout=_TIMEOUT_S)

    def speech(self, body: dict[str, object]) -> tuple[int, bytes]:
        """Request speech. Return the status and the whole body of the response."""
        with closing(self.connect()) as connection:
            connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def _wait_ready(self, deadline: float) -> None:
        """Wait until the server is ready. Raises RuntimeError when it exits or takes too long."""
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server was not ready within {_TIMEOUT_S:g} s; see {self._log.name}")
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        connection = self.connect()
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(_TIMEOUT_S)
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
    return port
