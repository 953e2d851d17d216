"""Closes connections by reset or by lingering close, where the peer could misread a plain close."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, with 0 seconds: close() sends RST instead of FIN."""


def reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset, so that the peer cannot mistake an incomplete response for a complete one.

    Queued data is lost.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # the connection is closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


class LingeringClose(asyncio.Protocol):
    """Sends queued data and FIN, then discards input until the peer closes too (RFC 9112, 9.6).

    A plain close with unread input resets the connection, and the peer may lose the response that was sent before.

    Args:
        transport: the connection; this protocol takes it over.
        previous: the protocol of the connection until now; its ``connection_lost`` is called at the end.
        seconds: maximum wait for the peer.
    """

    def __init__(self, transport: asyncio.Transport, previous: asyncio.Protocol, seconds: float) -> None:
        self._previous = previous
        self.timer = asyncio.get_running_loop().call_later(seconds, transport.abort)
        transport.set_protocol(self)
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer and notify the previous protocol. The peer or the timer closed the connection."""
        self.timer.cancel()
        self._previous.connection_lost(exc)
