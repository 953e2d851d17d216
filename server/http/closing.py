"""Two ways to end a connection that a plain close would end wrongly."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, with 0 seconds: close() sends RST instead of FIN."""


def reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset, so that the peer cannot take what it has received for the whole response.

    Data that is still queued is lost.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # the connection is closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


class LingeringClose(asyncio.Protocol):
    """Sends what is queued and FIN, then discards input until the peer closes too (RFC 9112, 9.6).

    A plain close with unread input resets the connection, and the peer may lose the answer that was sent before.

    Args:
        transport: the connection; this protocol takes it over.
        owner: the protocol before; its ``connection_lost`` is called at the end.
        seconds: upper bound on the wait for the peer.
    """

    def __init__(self, transport: asyncio.Transport, owner: asyncio.Protocol, seconds: float) -> None:
        self._owner = owner
        self.timer = asyncio.get_running_loop().call_later(seconds, transport.abort)
        transport.set_protocol(self)
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by the peer or by the timer."""
        self.timer.cancel()
        self._owner.connection_lost(exc)
