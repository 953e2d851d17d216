"""The HTTP processes beside the main one, as their supervisor sees them. Each is started and restarted alone."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from server.http.child_process import MAIN_ENDED, Backoff, ChildProcess, Heartbeat, describe_exit

_log = logging.getLogger("sonant")

StartChild = Callable[[Callable[[Heartbeat], int], str], ChildProcess]
"""Starts a process that runs a function, with a name for the log. Raises OSError."""


@dataclass(slots=True)
class _State:
    """The state of one process, which has ended or was not started while ``child`` is None."""

    name: str
    child: ChildProcess | None = None
    start_at: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)

    def retry(self, reason: str, level: int = logging.ERROR) -> None:
        """Start the process again after a pause."""
        pause = self.backoff.next(None if self.child is None else self.child.served_since)
        _log.log(level, "%s %s; restarting it in %.1f s", self.name, reason, pause)
        self.start_at = time.monotonic() + pause


class AdditionalProcesses:
    """Starts ``count`` processes, and each again when it ends. Each has a connection to the main HTTP process.

    Args:
        serve: runs in a process, given its connection to the main process and its listening socket. Returns its exit
            code. It must run the ``Heartbeat`` in its event loop.
        listen: opens the listening socket of a process. It is closed when the process ends, so that no connection waits
            for the next one. Raises OSError.
        count: number of processes.

    Attributes:
        arrivals: the socket from which the main process receives its end of each connection; None without processes.
            Only in the main process.
    """

    def __init__(
        self,
        serve: Callable[[socket.socket, socket.socket, Heartbeat], int],
        listen: Callable[[], socket.socket],
        count: int,
    ) -> None:
        self._serve, self._listen, self._count = serve, listen, count
        self._states: list[_State] = []
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
    def timeout(self) -> float:
        """Seconds after which ``observe`` should be called again; inf without processes."""
        now = time.monotonic()
        starts = [max(0.0, state.start_at - now) for state in self._states if state.child is None]
        return min([*starts, *(child.timeout for child in self._children())], default=math.inf)

    def begin(self, start_main: Callable[[], ChildProcess]) -> ChildProcess:
        """Start the main process, and return it. The others are started by ``observe``. Raises OSError."""
        if not self._count:
            return start_main()
        self._states = [_State(f"HTTP process {number + 2}") for number in range(self._count)]
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
        for state in self._states:
            if state.child is not None:
                state.child.observe(readable)
                if (code := codes.get(state.child.pid)) is not None:
                    if not stopping:
                        level = logging.DEBUG if code == MAIN_ENDED else logging.ERROR  # that is in the log already
                        state.retry(f"(pid {state.child.pid}) {describe_exit(code)}", level)
                    state.child.close()
                    state.child = None
            elif not stopping and time.monotonic() >= state.start_at:
                self._start(state, start)

    def send(self, number: int) -> None:
        """Send a signal to all processes."""
        for child in self._children():
            child.send(number)

    def end(self) -> None:
        """Kill all processes, after the main process has ended."""
        for child in self._children():
            child.close()
        self._states = []
        if self._to_main is not None:
            self._to_main.close()
            self._to_main = None

    def _children(self) -> list[ChildProcess]:
        return [state.child for state in self._states if state.child is not None]

    def _start(self, state: _State, start: StartChild) -> None:
        try:
            listener = self._listen()
        except OSError as error:
            state.retry(f"could not be started: {error}")
            return
        try:
            own, main = socket.socketpair()
        except OSError as error:
            listener.close()
            state.retry(f"could not be started: {error.strerror}")
            return

        def serve(heartbeat: Heartbeat) -> int:
            main.close()
            return self._serve(own, listener, heartbeat)

        try:
            state.child = start(serve, state.name)
        except OSError as error:
            state.retry(f"could not be started: {error.strerror}")
        else:
            assert self._to_main is not None
            with suppress(OSError):  # the main process has ended
                socket.send_fds(self._to_main, [b"\0"], [main.fileno()])
        finally:
            for each in (own, main, listener):
                each.close()
