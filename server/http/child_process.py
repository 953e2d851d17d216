"""One HTTP process, as its supervisor sees it: a forked child that sends heartbeats."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from engine.system.process import die_with_parent

STOP_SIGNAL, FORCE_SIGNAL = signal.SIGUSR1, signal.SIGRTMIN
"""Signals from the supervisor: the first one tells an HTTP process to drain, the second one to stop at once.

A second signal of the same number would be lost if the process has not handled the first one yet. HTTP processes ignore
SIGINT, SIGTERM and SIGHUP: a service manager (or ``pkill``) may send them to every process of the service, and a signal
received both directly and through the supervisor would count twice.
"""
CRASHED = 70
"""Exit code of an HTTP process that ended with an unexpected exception (``EX_SOFTWARE`` of sysexits.h)."""
MAIN_ENDED = 75
"""Exit code of an additional HTTP process after the end of the main one (``EX_TEMPFAIL``)."""
FOR_USERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals for users and service managers."""
_ALIVE, _ENGINE_READY = b"\0", b"\1"
"""The bytes of a heartbeat."""
_STACK_SIGNAL = signal.SIGUSR2
_HEARTBEAT_S = 5.0
_START_TIMEOUT_S = 120.0
"""Timeout from the start of the HTTP process to its first heartbeat."""
_DESCENDANTS_TIMEOUT_S = 10.0
"""Timeout for the end of the processes that a dead HTTP process left behind."""
_STACK_WAIT_S = 0.5
_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_HEALTHY_S = 60.0
"""Seconds of serving after which the pauses before restarts begin anew."""

_log = logging.getLogger("sonant")


class Heartbeat:
    """The HTTP process's end of the heartbeat pipe, which tells the supervisor that the event loop runs."""

    def __init__(self, descriptor: int, interval: float) -> None:
        self._descriptor, self._interval = descriptor, interval
        os.set_blocking(descriptor, False)

    async def run(self) -> None:
        """Send a byte every ``interval`` seconds from the event loop. Exit if the supervisor has ended."""
        while True:
            self._send(_ALIVE)
            await asyncio.sleep(self._interval)

    def engine_ready(self) -> None:
        """Tell the supervisor that the engine is ready, so its configuration works."""
        self._send(_ENGINE_READY)

    def _send(self, beat: bytes) -> None:
        try:
            os.write(self._descriptor, beat)
        except BlockingIOError:
            pass  # the supervisor is suspended; the pipe is full of heartbeats
        except BrokenPipeError:
            os._exit(1)


class Backoff:
    """The pauses before the restarts of a process: each is twice the one before, up to 30 s."""

    def __init__(self) -> None:
        self._pause = _FIRST_BACKOFF_S

    def next(self, served_since: float | None) -> float:
        """Return the seconds before the next start. A minute of service, since ``served_since``, resets them."""
        if served_since is not None and time.monotonic() - served_since > _HEALTHY_S:
            self._pause = _FIRST_BACKOFF_S
        pause, self._pause = self._pause, min(2 * self._pause, _MAX_BACKOFF_S)
        return pause


class ChildProcess:
    """A forked HTTP process. Create it in the main thread of a process without an event loop.

    The child has its own session. So it does not receive signals from the terminal, and all processes that it starts
    can be found by their session id.

    Args:
        serve: runs in the child and returns its exit code. It must run the ``Heartbeat`` in its event loop.
        stall_seconds: seconds without a heartbeat after which the child counts as hung.
        name: of the process, for the log.
        handled: signals that this process handles. They are blocked until the child no longer shares their handlers.
        foreign: file descriptors of this process that the child must close.

    Attributes:
        pid: its process id.
        descriptor: the end of the heartbeat pipe of this process.
        heartbeats: the same, which becomes readable at a heartbeat; None once the child is ending.
        served_since: when its first heartbeat arrived (``time.monotonic``); None before.
        engine_was_ready: whether it has reported that an engine is ready.

    Raises OSError if the process cannot be started.
    """

    def __init__(
        self,
        serve: Callable[[Heartbeat], int],
        *,
        stall_seconds: float,
        name: str,
        handled: Collection[signal.Signals],
        foreign: Collection[int],
    ) -> None:
        self.name, self._stall_seconds = name, stall_seconds
        self._interval = min(_HEARTBEAT_S, stall_seconds / 4)
        self._tick = 2 * self._interval
        self._silent, self._limit = 0.0, max(_START_TIMEOUT_S, stall_seconds)
        self.served_since: float | None = None
        self.engine_was_ready = False
        self.pid, self.descriptor = self._fork(serve, handled, foreign)
        self.heartbeats: int | None = self.descriptor
        self._checked = time.monotonic()

    @property
    def timeout(self) -> float:
        """Seconds after which ``observe`` should be called again."""
        return min(self._tick, self._limit - self._silent)

    def observe(self, readable: Collection[int]) -> None:
        """Read heartbeats, and kill the child if it has sent none for too long.

        Time without a heartbeat counts only while this process also runs, so pausing the whole service is not a hang.
        """
        now = time.monotonic()
        self._silent, self._checked = self._silent + min(now - self._checked, self._tick), now
        if self.heartbeats in readable:
            if beats := os.read(self.descriptor, 4096):
                self.engine_was_ready = self.engine_was_ready or _ENGINE_READY in beats
                self._silent, self._limit = 0.0, self._stall_seconds
                self.served_since = self.served_since or now
            else:
                self.heartbeats = None
        if self._silent >= self._limit:
            self._kill_hung()
            self._silent = 0.0

    def send(self, number: int) -> None:
        """Send a signal to the child. No-op if it was reaped."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """Kill what is left of the child and of the processes that it started, and free the descriptor."""
        os.close(self.descriptor)
        end_session(self.pid)

    def _kill_hung(self) -> None:
        """Kill the child. Before that it prints the stacks of its threads, if it can still handle a signal."""
        _log.error("the %s (pid %d) sent no heartbeat for %g s; killing it", self.name, self.pid, self._limit)
        self.send(_STACK_SIGNAL)
        time.sleep(_STACK_WAIT_S)
        self.send(signal.SIGKILL)

    def _fork(
        self, serve: Callable[[Heartbeat], int], handled: Collection[signal.Signals], foreign: Collection[int]
    ) -> tuple[int, int]:
        """Start the child. Return its process id and the read end of its heartbeat pipe. Raises OSError."""
        parent = os.getpid()
        heartbeats, sender = os.pipe()
        # The child shares the signal pipe until it has closed it, so it must not receive signals before that.
        blocked = {*handled, STOP_SIGNAL, FORCE_SIGNAL, _STACK_SIGNAL}
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # about threads: OpenBLAS stops its own at a fork
                child = os.fork()
            if child == 0:
                _run(serve, Heartbeat(sender, self._interval), parent, (heartbeats, *foreign), blocked)
        except OSError:
            os.close(heartbeats)
            raise
        finally:
            os.close(sender)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        return child, heartbeats


def _run(
    serve: Callable[[Heartbeat], int],
    heartbeat: Heartbeat,
    parent: int,
    foreign: Collection[int],
    blocked: Collection[signal.Signals],
) -> NoReturn:
    """Run ``serve`` in the child; always exit."""
    code = CRASHED
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in FOR_USERS:
            signal.signal(number, signal.SIG_IGN)
        for descriptor in foreign:
            os.close(descriptor)
        faulthandler.enable()
        faulthandler.register(_STACK_SIGNAL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        die_with_parent(parent)
        code = serve(heartbeat)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else CRASHED
    except BaseException:
        _log.exception("the HTTP process failed")
    finally:
        with suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def reap() -> dict[int, int]:
    """Reap all ended children, including adopted ones.

    Return the exit code of each, or minus its signal number, as in ``subprocess``.
    """
    codes: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    return codes


def end_session(leader: int) -> None:
    """Kill the remaining processes of the child's session, such as the engine, and wait until they have ended.

    Their memory is free for a new engine only then.
    """
    deadline = time.monotonic() + _DESCENDANTS_TIMEOUT_S
    while members := list(_session_members(leader)):
        for member in members:
            with suppress(OSError):
                os.kill(member, signal.SIGKILL)
                os.waitpid(member, os.WNOHANG)
        if time.monotonic() > deadline:
            _log.warning(
                "processes %s, which the HTTP process (pid %d) left behind, did not end within %g s",
                members,
                leader,
                _DESCENDANTS_TIMEOUT_S,
            )
            return
        time.sleep(0.02)


def describe_exit(code: int) -> str:
    """Return how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _session_members(leader: int) -> Iterator[int]:
    """Yield the process ids of a session; none if there is no /proc."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(entry.name)) == leader:
                yield int(entry.name)
