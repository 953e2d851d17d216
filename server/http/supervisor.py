"""The supervisor of ``sonant serve``: runs the HTTP processes and restarts them when they crash or hang."""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType

from engine.system.process import adopt_orphans
from server.http.additional_processes import AdditionalProcesses
from server.http.child_process import (
    FOR_USERS,
    FORCE_SIGNAL,
    STOP_SIGNAL,
    Backoff,
    ChildProcess,
    Heartbeat,
    describe_exit,
    reap,
)

RELOAD_SIGNAL = signal.SIGWINCH
"""Signal from the supervisor that tells the HTTP process to reload its configuration.

Processes ignore it by default, so it has no effect on one that does not handle it yet. The terminal sends it to its
foreground processes only, to which the HTTP process does not belong.
"""
_MAX_STARTS = 3
"""Number of starts after which the supervisor gives up if no HTTP process ever sent a heartbeat."""
_STOP_GRACE_S = 10.0
"""Grace period for the HTTP process to end, in addition to ``limits.drain_seconds``."""

_log = logging.getLogger("sonant")


class Supervisor:
    """Runs ``serve`` in a child process, restarts it when it crashes or hangs, and forwards signals to it.

    SIGINT and SIGTERM stop the child. SIGHUP makes it reload, or stops it if the terminal was closed.

    Args:
        serve: runs in the child and returns an exit code. 0 ends the supervisor. 1 ends it too, unless an engine was
            ready before: then the configuration works, and the failure may be temporary. Any other code and every
            signal is a crash. It must run the ``Heartbeat`` in its event loop.
        stall_seconds: seconds without a heartbeat after which a child is killed.
        drain_seconds: seconds that the child may take to stop, in addition to a fixed grace period, before it is
            killed.
        additional: further processes, which run as long as the child.
    """

    def __init__(
        self,
        serve: Callable[[Heartbeat], int],
        *,
        stall_seconds: float,
        drain_seconds: float,
        additional: AdditionalProcesses,
    ) -> None:
        self._serve, self._additional = serve, additional
        self._stall_seconds, self._drain_seconds = stall_seconds, drain_seconds
        self._forwarded = [each for each in FOR_USERS if signal.getsignal(each) is not signal.SIG_IGN]
        self._had_terminal = _has_terminal()
        self._must_reload = False
        """SIGHUP has arrived, and the child was not told yet."""
        self._deadline: float | None = None
        self._stop_seconds = 0.0
        self._child: ChildProcess | None = None
        self._served_since: float | None = None
        self._ever_served = self._engine_was_ready = False

    def run(self) -> int:
        """Run until a stop signal, or until the child exits with 0 or 1. Return the exit code of the command.

        Call it in the main thread, before this process has an event loop or threads that hold locks.
        """
        adopt_orphans()
        gc.freeze()  # the garbage collector would write to pages that are shared with the child
        self._signals = self._catch_signals()
        backoff, starts = Backoff(), 0
        while True:
            starts += 1
            try:
                reason = self._run_once()
            except OSError as error:
                reason = f"could not be started: {error.strerror}"
            if isinstance(reason, int):
                return reason
            if not self._ever_served and starts >= _MAX_STARTS:
                _log.error("the HTTP process %s; giving up after %d failed starts", reason, starts)
                return 1
            pause = backoff.next(self._served_since)
            _log.error("the HTTP process %s; restarting it in %.1f s", reason, pause)
            if self._wait_for_stop(pause):
                return 0

    def _run_once(self) -> int | str:
        """Run one child. Return the exit code of the supervisor, or the reason why the child must be restarted."""
        self._served_since = None
        self._child = child = self._additional.begin(lambda: self._start(self._serve, "HTTP process"))
        try:
            code = self._watch(child)
        finally:
            self._child = None
            self._additional.end()
            child.close()
        if code == 0 or (code == 1 and not (self._engine_was_ready and self._deadline is None)):
            return code
        reason = f"(pid {child.pid}) {describe_exit(code)}"
        if self._deadline is None:
            return reason
        if code in (-STOP_SIGNAL, -FORCE_SIGNAL):  # it was still starting
            return 0
        _log.error("the HTTP process %s while it was stopping", reason)
        return 1

    def _watch(self, child: ChildProcess) -> int:
        """Wait for the child to end. Return its exit code, or minus its signal number, as in ``subprocess``."""
        while True:
            watched = [self._signals, *self._additional.heartbeats]
            if child.heartbeats is not None:
                watched.append(child.heartbeats)
            ready, _, _ = select.select(watched, [], [], self._select_timeout(child))
            child.observe(ready)
            self._ever_served = self._ever_served or child.served_since is not None
            self._served_since = child.served_since
            self._engine_was_ready = self._engine_was_ready or child.engine_was_ready
            codes = reap()
            if child.pid in codes:
                return codes[child.pid]
            self._additional.observe(ready, codes, self._start, stopping=self._deadline is not None)
            for _ in range(self._read_signals(ready)):
                self._forward_stop(child)
            if self._must_reload and self._served_since is not None and self._deadline is None:
                self._must_reload = False
                child.send(RELOAD_SIGNAL)
            now = time.monotonic()
            if self._deadline is not None and now > self._deadline:
                _log.error(
                    "the HTTP process (pid %d) did not end within %g s; killing it", child.pid, self._stop_seconds
                )
                child.send(signal.SIGKILL)
                self._deadline = now + _STOP_GRACE_S

    def _start(self, serve: Callable[[Heartbeat], int], name: str) -> ChildProcess:
        """Start a child. Raises OSError."""
        main = [] if self._child is None else [self._child.descriptor]
        return ChildProcess(
            serve,
            stall_seconds=self._stall_seconds,
            name=name,
            handled=(*self._forwarded, signal.SIGCHLD, RELOAD_SIGNAL),
            foreign=(self._signals, self._signals_in, *main, *self._additional.descriptors),
        )

    def _forward_stop(self, child: ChildProcess) -> None:
        """Tell all children to drain, or, the second time, to stop at once. Set the deadline for their end."""
        number = STOP_SIGNAL if self._deadline is None else FORCE_SIGNAL
        seconds = _STOP_GRACE_S + (self._drain_seconds if self._deadline is None else 0)
        deadline = time.monotonic() + seconds
        if self._deadline is None or deadline < self._deadline:
            self._deadline, self._stop_seconds = deadline, seconds
        child.send(number)
        self._additional.send(number)

    def _wait_for_stop(self, seconds: float) -> bool:
        """Wait ``seconds``, or until a stop signal arrives. Return whether one arrived."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._signals], [], [], left)
            if self._read_signals(ready):
                return True
        return False

    def _read_signals(self, ready: list[int]) -> int:
        """Read the signals that have arrived. Return the number of stop signals; note a request to reload."""
        if self._signals not in ready:
            return 0
        arrived = [number for number in os.read(self._signals, 4096) if number in self._forwarded]
        if signal.SIGHUP in arrived and not (self._had_terminal and not _has_terminal()):
            self._must_reload = True
            return len([number for number in arrived if number != signal.SIGHUP])
        return len(arrived)

    def _select_timeout(self, child: ChildProcess) -> float:
        timeout = min(child.timeout, self._additional.timeout)
        return timeout if self._deadline is None else max(0.0, min(timeout, self._deadline - time.monotonic()))

    def _catch_signals(self) -> int:
        """Make Python write the number of each signal to a pipe. Return the pipe's read end."""
        receiver, self._signals_in = os.pipe()
        os.set_blocking(self._signals_in, False)
        signal.set_wakeup_fd(self._signals_in, warn_on_full_buffer=False)
        for number in (*self._forwarded, signal.SIGCHLD):
            signal.signal(number, _no_handler)
        return receiver


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal. When the terminal is closed, it has none any more."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _no_handler(number: int, frame: FrameType | None) -> None:
    """Do nothing: ``signal.set_wakeup_fd`` already writes the signal number to the pipe."""
