"""Which client a request is accounted to: limits and fair queues count per client."""

from __future__ import annotations

import math
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

_IPV6_PREFIX_BITS = 64
"""A single IPv6 host usually owns a whole /64, so its addresses count as one client."""


def client_of(scope: Scope) -> str:
    """Return the id of the API key that the request brought, else its address, for IPv6 the /64 network.

    The key check stores the id, a digest, as ``scope["state"]["key_id"]``. Connections without an address, such as
    Unix sockets, share one id.
    """
    key_id: str | None = scope.get("state", {}).get("key_id")
    if key_id is not None:
        return key_id
    host: str = scope["client"][0] if scope.get("client") else "local"
    if ":" not in host:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    assert isinstance(address, IPv6Address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = int(address) >> (128 - _IPV6_PREFIX_BITS) << (128 - _IPV6_PREFIX_BITS)
    return f"{IPv6Address(network)}/{_IPV6_PREFIX_BITS}"


def share_of(places: int, share: float) -> int:
    """Return how many of ``places`` one client may hold: ``share`` of them, rounded up, and at least one.

    A share below 1 always leaves one of several places to other clients.
    """
    most = max(1, math.ceil(round(share * places, 6)))
    return min(most, places - 1) if share < 1 and places > 1 else most
