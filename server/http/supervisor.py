"""The supervisor of ``sonant serve``: runs the HTTP process and restarts it when it crashes or hangs."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from engine.system.process import adopt_orphans, die_with_parent

STOP_SIGNAL = signal.SIGUSR1
"""Signal from the supervisor that tells the HTTP process to drain; a second one stops it at once.

The HTTP process ignores SIGINT, SIGTERM and SIGHUP: a service manager (or ``pkill``) may send them to every process of
the service, and a signal received both directly and through the supervisor would count twice.
"""
RELOAD_SIGNAL = signal.SIGWINCH
"""Signal from the supervisor that tells the HTTP process to reload its configuration.

Processes ignore it by default, so it has no effect on one that does not handle it yet. The terminal sends it to its
foreground processes only, to which the HTTP process does not belong.
"""
CRASHED = 70
"""Exit code of an HTTP process that ended with an unexpected exception (``EX_SOFTWARE`` of sysexits.h)."""
_ALIVE, _ENGINE_READY = b"\0", b"\1"
"""The bytes of a heartbeat."""
_STACK_SIGNAL = signal.SIGUSR2
_HEARTBEAT_S = 5.0
_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_HEALTHY_S = 60.0
"""Seconds of serving after which the backoff is reset."""
_MAX_STARTS = 3
"""Number of starts after which the supervisor gives up if no HTTP process ever sent a heartbeat."""
_START_TIMEOUT_S = 120.0
"""Timeout from the start of the HTTP process to its first heartbeat."""
_STOP_GRACE_S = 10.0
"""Grace period for the HTTP process to end, in addition to ``limits.drain_seconds``."""
_DESCENDANTS_TIMEOUT_S = 10.0
"""Timeout for the end of the processes that a dead HTTP process left behind."""
_STACK_WAIT_S = 0.5

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


class Supervisor:
    """Runs ``serve`` in a child process, restarts it when it crashes or hangs, and forwards signals to it.

    SIGINT and SIGTERM stop the child. SIGHUP makes it reload, or stops it if the terminal was closed.

    Args:
        serve: runs in the child and returns an exit code. 0 ends the supervisor. 1 ends it too, unless an engine was
            ready before: then the configuration works, and the failure may be temporary. Any other code and every
            signal is a crash. It must run the ``Heartbeat`` in its event loop.
        stall_seconds: seconds without a heartbeat after which the child is killed.
        drain_seconds: seconds that the child may take to stop, in addition to a fixed grace period, before it is
            killed.
    """

    def __init__(self, serve: Callable[[Heartbeat], int], *, stall_seconds: float, drain_seconds: float) -> None:
        self._serve = serve
        self._stall_seconds, self._drain_seconds = stall_seconds, drain_seconds
        self._interval = min(_HEARTBEAT_S, stall_seconds / 4)
        self._forwarded = [each for each in _signals() if signal.getsignal(each) is not signal.SIG_IGN]
        self._had_terminal = _has_terminal()
        self._must_reload = False
        """SIGHUP has arrived, and the child was not told yet."""
        self._deadline: float | None = None
        self._stop_seconds = 0.0
        self._served_since: float | None = None
        self._ever_served = self._engine_was_ready = False

    def run(self) -> int:
        """Run until a stop signal, or until the child exits with 0 or 1. Return the exit code of the command.

        Call it in the main thread, before this process has an event loop or threads that hold locks.
        """
        adopt_orphans()
        gc.freeze()  # the garbage collector would write to pages that are shared with the child
        self._signals = self._catch_signals()
        backoff, starts = _FIRST_BACKOFF_S, 0
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
            if self._served_since is not None and time.monotonic() - self._served_since > _HEALTHY_S:
                backoff = _FIRST_BACKOFF_S
            _log.error("the HTTP process %s; restarting it in %.1f s", reason, backoff)
            if self._wait_for_stop(backoff):
                return 0
            backoff = min(2 * backoff, _MAX_BACKOFF_S)

    def _run_once(self) -> int | str:
        """Run one child. Return the exit code of the supervisor, or the reason why the child must be restarted."""
        self._served_since = None
        child, heartbeats = self._fork()
        try:
            code = self._watch(child, heartbeats)
        finally:
            os.close(heartbeats)
            _end_session(child)
        if code == 0 or (code == 1 and not (self._engine_was_ready and self._deadline is None)):
            return code
        reason = f"(pid {child}) {_describe_exit(code)}"
        if self._deadline is None:
            return reason
        if code == -STOP_SIGNAL:  # it was still starting
            return 0
        _log.error("the HTTP process %s while it was stopping", reason)
        return 1

    def _watch(self, child: int, heartbeats: int) -> int:
        """Wait for the child to end. Return its exit code, or minus its signal number, as in ``subprocess``.

        Time without a heartbeat counts only while this process also runs, so pausing the whole service is not a hang.
        """
        silent, limit, tick = 0.0, max(_START_TIMEOUT_S, self._stall_seconds), 2 * self._interval
        watched = [self._signals, heartbeats]
        checked = time.monotonic()
        while True:
            ready, _, _ = select.select(watched, [], [], self._select_timeout(min(tick, limit - silent)))
            now = time.monotonic()
            silent, checked = silent + min(now - checked, tick), now
            if heartbeats in ready:
                if beats := os.read(heartbeats, 4096):
                    self._engine_was_ready = self._engine_was_ready or _ENGINE_READY in beats
                    silent, limit, self._ever_served = 0.0, self._stall_seconds, True
                    self._served_since = self._served_since or now
                else:
                    watched.remove(heartbeats)  # end of file: the child is ending
            if (code := _reap(child)) is not None:
                return code
            for _ in range(self._read_signals(ready)):
                self._forward_stop(child)
            if self._must_reload and self._served_since is not None and self._deadline is None:
                self._must_reload = False
                os.kill(child, RELOAD_SIGNAL)
            if silent >= limit:
                self._kill_hung(child, limit)
                silent = 0.0
            elif self._deadline is not None and now > self._deadline:
                _log.error("the HTTP process (pid %d) did not end within %g s; killing it", child, self._stop_seconds)
                os.kill(child, signal.SIGKILL)
                self._deadline = now + _STOP_GRACE_S

    def _forward_stop(self, child: int) -> None:
        """Tell the child to drain, or, the second time, to stop at once. Set the deadline for its end."""
        seconds = _STOP_GRACE_S + (self._drain_seconds if self._deadline is None else 0)
        deadline = time.monotonic() + seconds
        if self._deadline is None or deadline < self._deadline:
            self._deadline, self._stop_seconds = deadline, seconds
        os.kill(child, STOP_SIGNAL)

    def _kill_hung(self, child: int, limit: float) -> None:
        """Kill the child. Before that it prints the stacks of its threads, if it can still handle a signal."""
        _log.error("the HTTP process (pid %d) sent no heartbeat for %g s; killing it", child, limit)
        os.kill(child, _STACK_SIGNAL)
        time.sleep(_STACK_WAIT_S)
        os.kill(child, signal.SIGKILL)

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

    def _select_timeout(self, tick: float) -> float:
        return tick if self._deadline is None else max(0.0, min(tick, self._deadline - time.monotonic()))

    def _catch_signals(self) -> int:
        """Make Python write the number of each signal to a pipe. Return the pipe's read end."""
        receiver, self._signals_in = os.pipe()
        os.set_blocking(self._signals_in, False)
        signal.set_wakeup_fd(self._signals_in, warn_on_full_buffer=False)
        for number in (*self._forwarded, signal.SIGCHLD):
            signal.signal(number, _no_handler)
        return receiver

    def _fork(self) -> tuple[int, int]:
        """Start the child. Return its process id and the read end of its heartbeat pipe. Raises OSError."""
        parent = os.getpid()
        heartbeats, sender = os.pipe()
        # The child shares the signal pipe until it has closed it, so it must not receive signals before that.
        caught = {*self._forwarded, signal.SIGCHLD, STOP_SIGNAL, RELOAD_SIGNAL, _STACK_SIGNAL}
        signal.pthread_sigmask(signal.SIG_BLOCK, caught)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # about threads: OpenBLAS stops its own at a fork
                child = os.fork()
            if child == 0:
                self._run_child(parent, sender, (heartbeats, self._signals, self._signals_in), caught)
        except OSError:
            os.close(heartbeats)
            raise
        finally:
            os.close(sender)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
        return child, heartbeats

    def _run_child(self, parent: int, sender: int, foreign: tuple[int, ...], caught: set[signal.Signals]) -> NoReturn:
        """Run the HTTP process in the child; always exit.

        The child gets its own session. So it does not receive signals from the terminal, and all processes that it
        starts can be found by their session id.
        """
        code = CRASHED
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in _signals():
                signal.signal(number, signal.SIG_IGN)
            for descriptor in foreign:
                os.close(descriptor)
            faulthandler.enable()
            faulthandler.register(_STACK_SIGNAL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
            die_with_parent(parent)
            code = self._serve(Heartbeat(sender, self._interval))
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


def _signals() -> tuple[signal.Signals, ...]:
    """Return the signals for users and service managers."""
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal. When the terminal is closed, it has none any more."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _no_handler(number: int, frame: FrameType | None) -> None:
    """Do nothing: ``signal.set_wakeup_fd`` already writes the signal number to the pipe."""


def _reap(child: int) -> int | None:
    """Reap all ended children, including adopted ones. Return the exit code of ``child`` if it has ended, else None."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _end_session(leader: int) -> None:
    """Kill the remaining processes of the child's session, such as the engine, and wait until they have ended.

    Their memory is free for a new engine only then.
    """
    deadline = time.monotonic() + _DESCENDANTS_TIMEOUT_S
    while members := list(_session_members(leader)):
        for member in members:
            with suppress(OSError):
                os.kill(member, signal.SIGKILL)
        if time.monotonic() > deadline:
            _log.warning(
                "processes %s, which the HTTP process (pid %d) left behind, did not end within %g s",
                members,
                leader,
                _DESCENDANTS_TIMEOUT_S,
            )
            return
        time.sleep(0.02)
        _reap(leader)


def _session_members(leader: int) -> Iterator[int]:
    """Yield the process ids of a session; none if there is no /proc."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(entry.name)) == leader:
                yield int(entry.name)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
