"""Which client a connection or a request belongs to, for limits that apply to each client."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import Scope

_IPV6_PREFIX = 64
"""One IPv6 customer usually has at least a /64, so single addresses in it are not separate clients."""


@lru_cache(maxsize=4096)
def address_key(host: str) -> str:
    """The name under which a peer address is counted: an IPv4 address, or an IPv6 /64 network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


def client_key(scope: Scope, *, by_key: bool) -> str:
    """The client of a request: its bearer key where keys were checked, else its address.

    Args:
        scope: ASGI scope of an HTTP request.
        by_key: the server has keys, and this request's key was accepted. On a server without keys the header is
            not checked, so a client could name itself anew with each request.
    """
    if by_key and (key := Headers(scope=scope).get("authorization")):
        return f"key {key.rpartition(' ')[2]}"
    client = scope.get("client")
    return address_key(client[0]) if client else ""
