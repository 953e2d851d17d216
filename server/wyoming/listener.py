"""The Wyoming listener: accepts connections, and limits and closes them."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from functools import partial
from typing import cast

from wyoming.error import Error

from engine.errors import EngineError
from server.errors import ApiError, ClientDisconnected, Failure, failure_of
from server.http.closing import LingeringClose
from server.http.connection_table import ConnectionTable
from server.http.descriptors import ACCEPT_BATCH, prepare_listeners
from server.limits import Limits
from server.services import CurrentServices
from server.wyoming.connection import Connection
from server.wyoming.events import MAX_LINE_BYTES, EventReader, EventWriter

log = logging.getLogger("sonant.requests")

_CLOSE_SECONDS = 1.0
"""Upper bound on how long the end of a connection, and of the listener, waits for clients that do not read."""
_WRITE_BUFFER_BYTES = 64 * 1024
_BYTES_PER_CHARACTER = 12
"""Longest JSON form of a character: a surrogate pair, each escaped with six bytes."""
_EVENT_OVERHEAD_BYTES = 64 * 1024


class WyomingListener:
    """Serves the Wyoming protocol on a bound socket.

    connections: the open connections of the server, whose limits these connections share.
    """

    def __init__(self, bound: socket.socket, connections: ConnectionTable) -> None:
        self._bound, self._connections = bound, connections
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, current: CurrentServices) -> None:
        """Accept connections."""
        self._current = current
        self._server = await asyncio.start_server(
            self._accept, sock=self._bound, limit=MAX_LINE_BYTES, backlog=ACCEPT_BATCH
        )
        prepare_listeners([self._bound])

    async def close(self) -> None:
        """Stop listening, and close all connections. Requests in flight end with the error ``stopped``."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * _CLOSE_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the server is stopping, and the client was told
        finally:
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = str((writer.get_extra_info("peername") or [""])[0])
        transport = cast(asyncio.Transport, writer.transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES, low=0)
        services = self._current.services
        limits = services.settings.limits
        events = EventWriter(writer, limits.stalled_seconds)
        set_idle = partial(self._set_idle, transport)
        account = services.bodies.account(host)
        try:
            self._count(transport, host)
            incoming = EventReader(reader, _max_event_bytes(limits), account)
            await Connection(incoming, events, self._current, host, set_idle).run()
        except ClientDisconnected:
            pass
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, ApiError | EngineError | asyncio.CancelledError):
                log.exception("client=%s unexpected error", host)
            await _report(failure_of(error), events)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            account.close()
            self._connections.remove(transport)
            await _close(writer)

    def _count(self, transport: asyncio.Transport, host: str) -> None:
        """Count the connection. Raises ApiError 503 when the connection limit is reached."""
        if not self._connections.add(transport, host):
            message = (
                f"the server has no free connection: at most {self._connections.max_connections} are open at once "
                "(limits.max_connections), and those of one address a share of that (limits.connection_share); "
                "try again later"
            )
            raise ApiError(message, status=503, code="server_busy")

    def _set_idle(self, transport: asyncio.Transport, idle: bool) -> None:
        """Mark a connection as idle, so that it can be closed in favor of a new one, or as busy."""
        if idle:
            self._connections.set_idle(transport)
        else:
            self._connections.set_busy(transport)


def _max_event_bytes(limits: Limits) -> int:
    longest = max(limits.max_input_chars, limits.max_split_chars) * _BYTES_PER_CHARACTER + _EVENT_OVERHEAD_BYTES
    return min(limits.max_body_bytes, longest)


async def _report(failure: Failure, events: EventWriter) -> None:
    """Send an ``error`` event, if the client reads it within ``_CLOSE_SECONDS``."""
    with suppress(ClientDisconnected, TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await events.write(Error(failure.message, failure.code).event())


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close the connection. Unread input does not make the client lose what was sent."""
    transport = cast(asyncio.Transport, writer.transport)
    if not transport.is_closing():
        LingeringClose(transport, cast(asyncio.Protocol, transport.get_protocol()), _CLOSE_SECONDS)
    with suppress(OSError):
        await writer.wait_closed()
