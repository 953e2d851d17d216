"""One life of the engine process, seen from the client: its links, its records, its end. Free of torch."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from engine.config import EngineConfig
from engine.taken import Taken
from engine.transfer import Kind, Record, Side, Wakeup, pair, spawn

AUDIO_WINDOW = 128
"""Frames a stream's listener may be behind Code2Wav: 10 s of audio."""
_REQUEST_CAPACITY = 8 << 20
_AUDIO_CAPACITY = 8 << 20
_EXIT_PATIENCE_S = 1.0
_SUBMIT_PATIENCE_S = 0.2
"""How long a request may wait for room on a link that the worker does not read: it is the event loop that waits."""
_log = logging.getLogger(__name__)


Deliver = Callable[[list[Record], list[Record]], None]
"""Takes records of the request link and of the audio link, in the listening thread."""


class WorkerHandle:
    """Starts the engine process and listens to it in a thread until it is gone or closed.

    The worker ends when stage 2 does, so the end of the request link is the end of everything, and the reason for a
    failed start comes before it. It is in a process group of its own: a terminal's Ctrl-C is for its parent.

    deliver: gets what the worker says; gone: called once, last, when nothing more will come.
    """

    def __init__(self, config: EngineConfig, deliver: Deliver, gone: Callable[[], None]) -> None:
        self._deliver, self._gone = deliver, gone
        self._wakeup = Wakeup()
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
        self.requests = requests.attach(self._wakeup, patience=_SUBMIT_PATIENCE_S)
        self.audio = audio.attach(self._wakeup)
        self.taken = Taken(self.audio)
        self._closing = False
        self._listener = threading.Thread(target=self._listen, name="engine-client", daemon=True)
        self._listener.start()

    def close(self) -> None:
        """End the worker and everything that belongs to it. Blocks for about a second if the worker is busy or hung."""
        self._closing = True
        self._wakeup.notify()
        self._listener.join()
        self.requests.close()
        self.audio.close()
        try:
            self.process.wait(_EXIT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            _log.warning("the engine process did not end by itself and was killed")
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

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
