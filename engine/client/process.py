"""One run of the engine process, from the client's side: its links and its exit. Imports no torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from engine.client.links import AUDIO_WINDOW, RING_BYTES, EngineLinks
from engine.config import EngineConfig
from engine.system.gpus import with_gpu
from engine.transfer import MultiSide, Record, Side, multi_pair, spawn

_EXIT_TIMEOUT_S = 1.0
"""Timeout for a worker to exit by itself after its links are closed. Then it is killed."""
_KILL_TIMEOUT_S = 10.0
"""Timeout for a killed process to disappear. The kernel may still be busy with it, for example in a GPU driver."""
_log = logging.getLogger(__name__)


OnRecords = Callable[["EngineProcess", list[Record], list[Record]], None]
"""Called with new records of the request link and of the audio link."""


class EngineProcess:
    """Starts the engine process and receives its records in the event loop until the process ends or is closed.

    The reason for a failed start arrives before the end of the links. The worker has its own process group, so that a
    terminal's Ctrl-C only reaches its parent.

    on_records: called with new records. on_exit: called once after the last record, unless ``close`` was called before.

    Attributes:
        links: this process's links to the worker.
    """

    def __init__(self, config: EngineConfig, on_records: OnRecords, on_exit: Callable[[EngineProcess], None]) -> None:
        environment = _environment(config.gpu)
        requests, worker_requests, self._request_joiner = multi_pair(window=1, capacity=RING_BYTES)
        with contextlib.ExitStack() as undo:
            undo.callback(self._request_joiner.close)
            undo.callback(requests.close)
            with contextlib.ExitStack() as not_spawned:
                not_spawned.callback(worker_requests.close)
                audio, worker_audio, self._audio_joiner = multi_pair(window=AUDIO_WINDOW, capacity=RING_BYTES)
                not_spawned.pop_all()
            undo.callback(self._audio_joiner.close)
            undo.callback(audio.close)
            self.process = _start(config, environment, worker_requests, worker_audio)
            undo.pop_all()
        with contextlib.ExitStack() as undo:
            undo.callback(self._close_joiners)
            undo.callback(self._reap)
            undo.callback(self.kill)
            self.links = EngineLinks(
                requests,
                audio,
                lambda responses, chunks: on_records(self, responses, chunks),
                lambda: on_exit(self),
            )
            undo.pop_all()

    def join(self, peer: int) -> tuple[Side, Side]:
        """Return the sides of a request link and an audio link for another process. Raises OSError.

        peer: its number, from 1, which was not used before.
        """
        audio = self._audio_joiner.join(peer)
        try:
            return self._request_joiner.join(peer), audio
        except OSError:
            audio.close()
            raise

    def kill(self) -> None:
        """Kill the worker and the processes that it started, even if they are suspended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: zombies on macOS
            os.killpg(self.process.pid, signal.SIGKILL)

    async def close(self, timeout: float = _EXIT_TIMEOUT_S) -> None:
        """Close the links and wait for the worker to exit. Kill what is left of it after ``timeout`` seconds."""
        self.links.stop()
        self._close_joiners()
        await asyncio.to_thread(self._close, timeout)

    def _close(self, timeout: float) -> None:
        self.links.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            _log.warning("killing the engine process %d: it did not exit within %g s", self.process.pid, timeout)
        self.kill()  # even if the worker has exited: a process that it started may still run
        self._reap()

    def _close_joiners(self) -> None:
        self._request_joiner.close()
        self._audio_joiner.close()

    def _reap(self) -> None:
        try:
            self.process.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _log.error("the engine process %d has not exited %g s after SIGKILL", self.process.pid, _KILL_TIMEOUT_S)


def _start(
    config: EngineConfig, environment: dict[str, str], requests: MultiSide, audio: MultiSide
) -> subprocess.Popen[bytes]:
    """Start the worker with its sides of the links, and close them in this process. Raises OSError."""
    command = [sys.executable, "-m", "engine.worker", config.model_dump_json()]
    command += [requests.to_argument(), audio.to_argument(), str(os.getpid())]
    return spawn(command, [requests, audio], env=environment, process_group=0)


def _environment(gpu: int | None) -> dict[str, str]:
    """Return the worker's environment, in which only ``gpu`` is visible. Raises SetupError if it does not exist.

    It sets two variables unless they are set: torch's C++ log level is ERROR, because torch's packed kernels log a
    deprecation warning at every start, and the tokenizer uses no threads of its own, which would compete for the cores.
    """
    environment = {"TORCH_CPP_LOG_LEVEL": "ERROR", "TOKENIZERS_PARALLELISM": "false", **os.environ}
    return environment if gpu is None else with_gpu(gpu, environment, "gpu")
