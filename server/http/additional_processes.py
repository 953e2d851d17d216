"""The HTTP processes beside the main one, as their supervisor sees them. Each is started and restarted alone."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from server.http.child_process import ChildProcess, Heartbeat, describe_exit

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_HEALTHY_S = 60.0
"""Seconds of serving after which the backoff is reset."""
_log = logging.getLogger("sonant")

StartChild = Callable[[Callable[[Heartbeat], int], str], ChildProcess]
"""Starts a process that runs a function, with a name for the log. Raises OSError."""


@dataclass(slots=True)
class _Place:
    """One of the processes, which has ended or was not started while ``child`` is None."""

    number: int
    name: str
    child: ChildProcess | None = None
    start_at: float = 0.0
    backoff: float = _FIRST_BACKOFF_S

    def retry(self, reason: str) -> None:
        """Start the process again after a pause."""
        now = time.monotonic()
        if self.child is not None and self.child.served_since and now - self.child.served_since > _HEALTHY_S:
            self.backoff = _FIRST_BACKOFF_S
        _log.error("%s %s; restarting it in %.1f s", self.name, reason, self.backoff)
        self.start_at, self.backoff = now + self.backoff, min(2 * self.backoff, _MAX_BACKOFF_S)


class AdditionalProcesses:
    """Starts ``count`` processes, and each again when it ends. Each has a connection to the main HTTP process.

    Args:
        serve: runs in a process, given its number from 0 and its connection to the main process. Returns its exit code.
            It must run the ``Heartbeat`` in its event loop.
        count: number of processes.

    Attributes:
        arrivals: the socket from which the main process receives its end of each connection; None without processes.
            Only in the main process.
    """

    def __init__(self, serve: Callable[[int, socket.socket, Heartbeat], int], count: int) -> None:
        self._serve, self._count = serve, count
        self._places: list[_Place] = []
        self._to_main: socket.socket | None = None
        self.arrivals: socket.socket | None = None

    @property
    def descriptors(self) -> list[int]:
        """The file descriptors of the supervisor that no process may keep."""
        sockets = [] if self._to_main is None else [self._to_main.fileno()]
        return [*sockets, *(child.descriptor for child in self._children())]

    @property
    def heartbeats(self) -> list[int]:
        """The file descriptors that become readable at a heartbeat."""
        return [each for child in self._children() if (each := child.heartbeats) is not None]

    @property
    def patience(self) -> float:
        """Seconds after which ``observe`` should be called again; inf without processes."""
        now = time.monotonic()
        starts = [max(0.0, place.start_at - now) for place in self._places if place.child is None]
        return min([*starts, *(child.patience for child in self._children())], default=float("inf"))

    def begin(self, start_main: Callable[[], ChildProcess]) -> ChildProcess:
        """Start the main process, and return it. The others are started by ``observe``. Raises OSError."""
        if not self._count:
            return start_main()
        self._places = [_Place(number, f"HTTP process {number + 2}") for number in range(self._count)]
        self._to_main, self.arrivals = socket.socketpair()
        try:
            return start_main()
        finally:
            self.arrivals.close()
            self.arrivals = None

    def observe(
        self, readable: Collection[int], codes: Mapping[int, int], start: StartChild, *, stopping: bool
    ) -> None:
        """Watch the processes, and start those that do not run, unless the server is stopping.

        readable: file descriptors with heartbeats. codes: the exit codes of the processes that have ended.
        """
        for place in self._places:
            if place.child is not None:
                place.child.observe(readable)
                if (code := codes.get(place.child.pid)) is not None:
                    if not stopping:
                        place.retry(f"(pid {place.child.pid}) {describe_exit(code)}")
                    place.child.close()
                    place.child = None
            elif not stopping and time.monotonic() >= place.start_at:
                self._start(place, start)

    def send(self, number: int) -> None:
        """Send a signal to all processes."""
        for child in self._children():
            child.send(number)

    def end(self) -> None:
        """Kill all processes, after the main process has ended."""
        for child in self._children():
            child.close()
        self._places = []
        if self._to_main is not None:
            self._to_main.close()
            self._to_main = None

    def _children(self) -> list[ChildProcess]:
        return [place.child for place in self._places if place.child is not None]

    def _start(self, place: _Place, start: StartChild) -> None:
        own, main = socket.socketpair()

        def serve(heartbeat: Heartbeat) -> int:
            main.close()
            return self._serve(place.number, own, heartbeat)

        try:
            place.child = start(serve, place.name)
        except OSError as error:
            place.retry(f"could not be started: {error.strerror}")
        else:
            assert self._to_main is not None
            with suppress(OSError):  # the main process has ended
                socket.send_fds(self._to_main, [b"\0"], [main.fileno()])
        finally:
            own.close()
            main.close()
