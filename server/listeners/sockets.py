"""Listening sockets: their options, and the check that a server without keys is not exposed by accident."""

from __future__ import annotations

import ipaddress
import socket

_UNSENT_BYTES = 256 * 1024
"""Unsent bytes that the kernel buffers per connection. Without a limit it buffers megabytes (a minute of speech) before
the server notices that a client does not read."""


def listen(host: str, port: int, stalled_seconds: float, *, reuse_port: bool = False) -> socket.socket:
    """Return a listening socket. It is opened before anything is loaded, so that an unusable address fails early.

    Accepted connections inherit its options. TCP_NODELAY is needed because with Nagle's algorithm, which asyncio does
    not disable here, data is 40 ms late. Raises OSError.

    stalled_seconds: the kernel closes connections of clients that have not read for this time. reuse_port: other
    sockets of this user with this option may listen on the same address.
    """
    try:
        listener = socket.create_server((host, port), family=_family(host), backlog=2048, reuse_port=reuse_port)
    except OSError as error:
        raise _address_error(host, port, error) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stalled_seconds * 1000))
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    return listener


def listen_first(host: str, port: int, stalled_seconds: float) -> socket.socket:
    """Return the first of several sockets on one address. The others are opened by ``listen`` with ``reuse_port``.

    Linux distributes new connections over them by chance. An address that another server listens on is refused, also
    if that has the option. Raises OSError.
    """
    with listen(host, port, stalled_seconds) as alone:
        port = alone.getsockname()[1]
    return listen(host, port, stalled_seconds, reuse_port=True)


def authority(listener: socket.socket) -> str:
    """Return the address of a bound socket as ``host:port``, with brackets around an IPv6 address."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Return whether only this machine can reach a bound socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _address_error(host: str, port: int, error: OSError) -> OSError:
    reason = str(error.strerror or error).partition(" (")[0]
    return OSError(f"cannot listen on {host}:{port}: {reason}")
