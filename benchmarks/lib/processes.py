"""Finds the processes of a running ``sonant serve``."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

_TIMEOUT_S = 60.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Processes:
    """The processes of a server by their role.

    supervisor: the process that was started.
    http: its child, which holds the connections and runs the engines: the main HTTP process.
    engine: the engine process, a child of ``http``, and then its descendants (Code2Wav, if it runs in a process).
    others: other descendants of the HTTP process.
    additional: the additional HTTP processes, with ``http_processes`` above 1.
    """

    supervisor: psutil.Process
    http: psutil.Process
    engine: tuple[psutil.Process, ...]
    others: tuple[psutil.Process, ...]
    additional: tuple[psutil.Process, ...] = ()

    @property
    def all(self) -> tuple[psutil.Process, ...]:
        """All processes, in the order HTTP, engine, others, supervisor."""
        return (self.http, *self.additional, *self.engine, *self.others, self.supervisor)


def processes(pid: int) -> Processes:
    """Wait for the HTTP and engine process of the server with the supervisor ``pid``, and return its processes.

    Raises TimeoutError when they do not start in time.
    """
    supervisor = psutil.Process(pid)
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            children = supervisor.children()
            for http in children:
                for engine in http.children():
                    if any("engine.worker" in word for word in engine.cmdline()):
                        family = (engine, *engine.children(recursive=True))
                        others = tuple(each for each in http.children(recursive=True) if each not in family)
                        additional = tuple(each for each in children if each != http)
                        return Processes(supervisor, http, family, others, additional)
        except psutil.NoSuchProcess:
            if not supervisor.is_running():
                raise
        if time.monotonic() > deadline:
            raise TimeoutError(f"server {pid} did not start its HTTP and engine process within {_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


def http_process(pid: int) -> psutil.Process:
    """Return the HTTP process of the server with the supervisor ``pid``. Does not wait for the engine process."""
    supervisor = psutil.Process(pid)
    deadline = time.monotonic() + _TIMEOUT_S
    while not (children := supervisor.children()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"server {pid} did not start its HTTP process within {_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)
    return children[0]
