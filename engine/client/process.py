"""One run of the engine process, as the client sees it: its links, its records, its exit. Imports no torch."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from engine.client.credits import CreditBatch
from engine.config import EngineConfig
from engine.transfer import Kind, Record, Side, Wakeup, pair, spawn

AUDIO_WINDOW = 128
"""Frames a stream's listener may be behind Code2Wav: 10 s of audio."""
_REQUEST_CAPACITY = 8 << 20
_AUDIO_CAPACITY = 8 << 20
_REQUEST_BACKLOG = 64 << 20
"""Bytes of requests queued in this process while the request ring is full; submitting never blocks the event loop."""
_EXIT_SECONDS = 1.0
"""How long a worker may take to end by itself once its links are closed; then it is killed."""
_REAP_SECONDS = 10.0
"""How long a killed process may take to disappear: the kernel may be busy with it, in a GPU driver for example."""
_log = logging.getLogger(__name__)


Deliver = Callable[[list[Record], list[Record]], None]
"""Takes records of the request link and of the audio link, in the listening thread."""


class EngineProcess:
    """Starts the engine process and listens to it in a thread until it is gone or closed.

    The worker ends when stage 2 does, so the end of the request link is the end of everything, and the reason for a
    failed start comes before it. It is in a process group of its own: a terminal's Ctrl-C is for its parent.

    deliver: gets what the worker says; gone: called once, last, when nothing more will come.
    """

    def __init__(self, config: EngineConfig, deliver: Deliver, gone: Callable[[], None]) -> None:
        self._deliver, self._gone = deliver, gone
        self._wakeup = Wakeup()
        self._closing = False
        self._listener = threading.Thread(target=self._listen, name="engine-client", daemon=True)
        (requests, worker_requests), (audio, worker_audio) = _links()
        sides = [worker_requests, worker_audio]
        command = [sys.executable, "-m", "engine.worker", config.model_dump_json()]
        command += [*(side.to_argument() for side in sides), str(os.getpid())]
        try:
            self.process = spawn(command, sides, env=_environment(), process_group=0)
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
            self.audio = audio.attach(self._wakeup)
            undo.callback(self.audio.close)
            self.taken = CreditBatch(self.audio)
            self._listener.start()
            undo.pop_all()

    def kill(self) -> None:
        """End the worker and the processes that it has started, at once, also when they are stopped."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: no permission for a group of zombies
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self, timeout: float = _EXIT_SECONDS) -> None:
        """Close the links and wait for the worker's end; what is left of it after ``timeout`` seconds is killed.

        Blocks: call it in a thread.
        """
        self._closing = True
        self._wakeup.notify()
        self._listener.join()
        self.requests.close()
        self.audio.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            _log.warning("the engine process did not end within %g s and was killed", timeout)
        self.kill()  # also when the worker has ended: a process that it started may be left
        self._reap()

    def _reap(self) -> None:
        try:
            self.process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            _log.error("the engine process %d was killed and is still there", self.process.pid)

    def _listen(self) -> None:
        try:
            while self._wakeup.wait_for(self._news) and not self._closing:
                asked, heard = self.requests.receive(), self._heard()
                if asked or heard:
                    self._deliver(asked, heard)
                if not self.requests.alive:
                    return
        except Exception:
            _log.exception("the links to the engine process broke")
        finally:
            self._gone()

    def _heard(self) -> list[Record]:
        """What listeners wait for: that a stream is open is no news to who asked for it, and would wake them all."""
        return [record for record in self.audio.receive() if record.kind is not Kind.OPEN]

    def _news(self) -> bool:
        dead = not self.requests.alive
        return self._closing or dead or self.requests.pending() or self.audio.pending()


def _links() -> tuple[tuple[Side, Side], tuple[Side, Side]]:
    """The request link's and the audio link's two sides each, the client's first; all of them or none."""
    requests = pair(window=1, capacity=_REQUEST_CAPACITY)
    try:
        return requests, pair(window=AUDIO_WINDOW, capacity=_AUDIO_CAPACITY)
    except OSError:
        for side in requests:
            side.close()
        raise


def _environment() -> dict[str, str]:
    """torch's C++ side says nothing below an error: its packed kernels greet every start with a deprecation notice."""
    return {"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ}
