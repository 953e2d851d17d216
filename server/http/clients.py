"""Identifies the clients of connections and requests, for limits and queues that count by client."""

from __future__ import annotations

import ipaddress
import math
from functools import lru_cache

from starlette.types import Scope

_IPV6_PREFIX = 64
"""An IPv6 customer usually has at least a /64, so addresses within a /64 count as one client."""


def client_of(scope: Scope) -> str:
    """Return the id of the request's API key, or else its address (for IPv6: the /64 network).

    On servers with several keys, ``KeyCheck`` stores the id, a digest, as ``scope["state"]["key_id"]``. A single key
    does not distinguish clients. Connections without an address, such as Unix sockets, share one id.
    """
    key_id: str | None = scope.get("state", {}).get("key_id")
    if key_id is not None:
        return key_id
    return address_key(scope["client"][0]) if scope.get("client") else "local"


@lru_cache(maxsize=4096)
def address_key(host: str) -> str:
    """Return the key under which a peer address is counted: an IPv4 address, or an IPv6 /64 network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"  # such as free text in X-Forwarded-For, whose number and length clients choose
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


def client_quota(total: int, share: float) -> int:
    """Return how many of ``total`` requests or sessions one client may have: ``share`` of them, rounded up.

    It is at least one. If ``share`` is below 1 and ``total`` above 1, at least one is left for other clients.
    """
    quota = max(1, math.ceil(round(share * total, 6)))
    return min(quota, total - 1) if share < 1 and total > 1 else quota
