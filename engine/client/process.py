"""One run of the engine process, from the client's side: its links, records and exit. Imports no torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from engine.client.credits import CreditBatch
from engine.config import EngineConfig
from engine.system.gpus import with_gpu
from engine.transfer import Kind, LoopWakeup, Record, Side, pair, spawn

AUDIO_WINDOW = 128
"""Credit of an audio stream, in frames: how far a client may be behind Code2Wav (10 s of audio)."""
_REQUEST_CAPACITY = 8 << 20
_AUDIO_CAPACITY = 8 << 20
_REQUEST_BACKLOG = 64 << 20
"""Maximum bytes of requests queued in this process while the request ring is full, so that submitting never blocks."""
_EXIT_TIMEOUT_S = 1.0
"""Timeout for a worker to exit by itself after its links are closed. Then it is killed."""
_KILL_TIMEOUT_S = 10.0
"""Timeout for a killed process to disappear. The kernel may still be busy with it, for example in a GPU driver."""
_log = logging.getLogger(__name__)


OnRecords = Callable[["EngineProcess", list[Record], list[Record]], None]
"""Called with new records of the request link and of the audio link."""


class EngineProcess:
    """Starts the engine process and receives its records in the event loop until the process ends or is closed.

    The worker exits when stage 2 exits, so the end of the request link means that the whole engine has ended. The
    reason for a failed start arrives before that. The worker has its own process group, so that a terminal's Ctrl-C
    only reaches its parent.

    on_records: called with new records. on_exit: called once after the last record, unless ``close`` was called before.
    """

    def __init__(self, config: EngineConfig, on_records: OnRecords, on_exit: Callable[[EngineProcess], None]) -> None:
        self._on_records, self._on_exit = on_records, on_exit
        self._wakeup = LoopWakeup(asyncio.get_running_loop(), self._receive, self._has_records)
        environment = _environment(config.gpu)
        (requests, worker_requests), (audio, worker_audio) = _links()
        sides = [worker_requests, worker_audio]
        command = [sys.executable, "-m", "engine.worker", config.model_dump_json()]
        command += [*(side.to_argument() for side in sides), str(os.getpid())]
        try:
            self.process = spawn(command, sides, env=environment, process_group=0)
        except OSError:
            requests.close()
            audio.close()
            raise
        with contextlib.ExitStack() as undo:
            undo.callback(self._reap)
            undo.callback(self.kill)
            try:
                self.requests = requests.attach(self._wakeup, backlog=_REQUEST_BACKLOG)
            except (OSError, RuntimeError):
                audio.close()
                raise
            undo.callback(self.requests.close)
            undo.callback(self._wakeup.stop)
            self.audio = audio.attach(self._wakeup)
            undo.pop_all()
        self.credits = CreditBatch(self.audio)

    def kill(self) -> None:
        """Kill the worker and the processes that it started, even if they are suspended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: zombies on macOS
            os.killpg(self.process.pid, signal.SIGKILL)

    async def close(self, timeout: float = _EXIT_TIMEOUT_S) -> None:
        """Close the links and wait for the worker to exit. Kill what is left of it after ``timeout`` seconds."""
        self._wakeup.stop()
        await asyncio.to_thread(self._close, timeout)

    def _close(self, timeout: float) -> None:
        self.requests.close()
        self.audio.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            _log.warning("killing the engine process %d: it did not exit within %g s", self.process.pid, timeout)
        self.kill()  # even if the worker has exited: a process that it started may still run
        self._reap()

    def _reap(self) -> None:
        try:
            self.process.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _log.error("the engine process %d has not exited %g s after SIGKILL", self.process.pid, _KILL_TIMEOUT_S)

    def _receive(self) -> None:
        try:
            responses, audio = self.requests.receive(), self._receive_audio()
            if responses or audio:
                self._on_records(self, responses, audio)
            if self.requests.alive:
                return
        except Exception:
            _log.exception("receiving records from the engine process failed")
        self._wakeup.stop()
        self._on_exit(self)

    def _receive_audio(self) -> list[Record]:
        """Return new audio records, without OPEN records, which announce nothing.

        A FAIL record without an error says only that the link is dead. It is left out: ``on_exit`` follows, and before
        that the client would submit a moved request to the same process again.
        """
        records = self.audio.receive()
        return [each for each in records if each.kind is not Kind.OPEN and (each.kind is not Kind.FAIL or each.payload)]

    def _has_records(self) -> bool:
        return not self.requests.alive or self.requests.pending() or self.audio.pending()


def _links() -> tuple[tuple[Side, Side], tuple[Side, Side]]:
    """Return both sides of the request link and of the audio link, the client's side first.

    If the second link cannot be created, closes the first one and raises OSError.
    """
    requests = pair(window=1, capacity=_REQUEST_CAPACITY)
    try:
        return requests, pair(window=AUDIO_WINDOW, capacity=_AUDIO_CAPACITY)
    except OSError:
        for side in requests:
            side.close()
        raise


def _environment(gpu: int | None) -> dict[str, str]:
    """Return the worker's environment, in which only ``gpu`` is visible. Raises SetupError if it does not exist.

    It raises torch's C++ log level to ERROR unless it is set: torch's packed kernels log a deprecation warning at every
    start.
    """
    environment = {"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ}
    return environment if gpu is None else with_gpu(gpu, environment, "gpu")
