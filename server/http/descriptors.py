"""File descriptors: how many connections they allow, and the log line when none is left."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

log = logging.getLogger("sonant")

ACCEPT_BATCH = 16
"""Connections that asyncio accepts in one iteration of the event loop.

It may accept four such batches before the first ``connection_made`` runs and evicts a connection. Therefore
4 * ACCEPT_BATCH must be well below RESERVE.
"""
RESERVE = 192
"""Descriptors that are not available to counted connections: for connections that are accepted but not yet counted,
refused connections that are closing, files, and links to the engine."""

_MAX_DESCRIPTORS = 65_536
_MAX_CONNECTIONS = 4096
_MIN_CONNECTIONS = 16
_LISTEN_QUEUE = 2048
_LOG_SECONDS = 60.0
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard limit, at most 65,536. Return the new soft limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY:
        return _MAX_DESCRIPTORS
    if soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a lower limit that getrlimit does not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft


def connection_capacity(configured: int | None, descriptors: int) -> int:
    """Return the connection limit: ``configured`` (``limits.max_connections``) as far as ``descriptors`` allow it.

    If ``configured`` is None, the limit is what the descriptors allow, at most 4096. Logs a warning when the
    descriptors allow fewer than ``configured``.
    """
    possible = max(_MIN_CONNECTIONS, descriptors - RESERVE)
    if configured is None:
        return min(possible, _MAX_CONNECTIONS)
    if configured > possible:
        log.warning(
            "limits.max_connections is %d, but the open-file limit of %d allows only %d; raise it (ulimit -n)",
            configured,
            descriptors,
            possible,
        )
    return min(configured, possible)


def prepare_listeners(sockets: Sequence[socket.socket]) -> None:
    """Restore the length of the listen queue, and install ``AcceptFailureLog``.

    Call it in the event loop once the server accepts connections. It is needed because asyncio uses one number, the
    backlog, both for the kernel's listen queue and for the size of an accept batch.
    """
    for listener in sockets:
        listener.listen(_LISTEN_QUEUE)
    asyncio.get_running_loop().set_exception_handler(AcceptFailureLog())


class AcceptFailureLog:
    """An event loop exception handler that logs accept() failures once a minute, and the rest as asyncio does."""

    def __init__(self) -> None:
        self._failures = 0
        self._next_log = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that asyncio reports."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES and "socket" in context):
            loop.default_exception_handler(context)
            return
        self._failures += 1
        now = time.monotonic()
        if now < self._next_log:
            return
        log.error(
            "accept() failed: %s; %d failures since the last such line; new connections wait in the listen queue",
            error.strerror,
            self._failures,
        )
        self._failures, self._next_log = 0, now + _LOG_SECONDS
