"""The processes of a running ``sonant serve``, found from outside."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

_PATIENCE_S = 60.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Processes:
    """A server's processes by their role.

    supervisor: the process that was started; http: its child, which holds the connections; engine: the child of that
    one, with its own children (Code2Wav, if it runs in a process), the engine process first; others: further
    descendants of the HTTP process.
    """

    supervisor: psutil.Process
    http: psutil.Process
    engine: tuple[psutil.Process, ...]
    others: tuple[psutil.Process, ...]

    @property
    def all(self) -> tuple[psutil.Process, ...]:
        """Every process: HTTP, engine, others, supervisor."""
        return (self.http, *self.engine, *self.others, self.supervisor)


def processes(pid: int) -> Processes:
    """Return the processes of the server with the supervisor ``pid``, once its HTTP and engine process exist.

    Raises TimeoutError when they do not.
    """
    supervisor = psutil.Process(pid)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            for http in supervisor.children():
                for engine in http.children():
                    if any("engine.worker" in word for word in engine.cmdline()):
                        family = (engine, *engine.children(recursive=True))
                        others = tuple(each for each in http.children(recursive=True) if each not in family)
                        return Processes(supervisor, http, family, others)
        except psutil.NoSuchProcess:
            if not supervisor.is_running():
                raise
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server {pid} has no HTTP or engine process")
        time.sleep(_POLL_S)


def http_process(pid: int) -> psutil.Process:
    """Return the HTTP process of the server with the supervisor ``pid``, also before there is an engine process."""
    supervisor = psutil.Process(pid)
    deadline = time.monotonic() + _PATIENCE_S
    while not (children := supervisor.children()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server {pid} has no HTTP process")
        time.sleep(_POLL_S)
    return children[0]
