"""The IP addresses that recordings may be fetched from: public ones, and those allowed by the configuration."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Self

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses behind NAT64: the last four bytes are the IPv4 address."""
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All IPv6 global unicast addresses."""
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "100.64.0.0/10",  # carrier-grade NAT
        "168.63.129.16/32",  # Azure metadata service
        "192.0.0.0/24",  # IETF protocol assignments, and the Oracle Cloud metadata service
        "192.88.99.0/24",  # 6to4 relays
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4: contains an IPv4 address, which may be private
        "3fff::/20",  # documentation
    )
)
"""Networks that are not public, although ``ipaddress`` treats them as global in some Python versions."""


class AddressRule:
    """Allows public addresses, and additionally the given host names and networks."""

    def __init__(self, names: Iterable[str], networks: Iterable[Network]) -> None:
        self._names = frozenset(names)
        self._networks = tuple(networks)

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        """Return the rule for the ``entries`` of ``references.private_hosts``. Raises ValueError."""
        parsed = [parse_entry(entry) for entry in entries]
        return cls(
            (each for each in parsed if isinstance(each, str)),
            (each for each in parsed if not isinstance(each, str)),
        )

    def permits(self, host: str, address: str) -> bool:
        """Return whether fetching from ``host`` at ``address`` is allowed."""
        if host.lower().rstrip(".") in self._names:
            return True
        reached = _reached(ipaddress.ip_address(address))
        return is_public(reached) or any(reached in network for network in self._networks)


def parse_entry(entry: str) -> str | Network:
    """Parse a host name (returned in lower case), a network, or an address (a network of one). Raises ValueError."""
    try:
        return ipaddress.ip_network(entry.strip(), strict=False)
    except ValueError:
        name = entry.strip().lower().rstrip(".")
        last = name.rpartition(".")[2]
        if not _NAME.fullmatch(name) or last.isdecimal():
            raise ValueError(f"each entry must be a host name, an IP address or a network, got {entry!r}") from None
        return name


def is_public(address: Address) -> bool:
    """Return whether ``address`` is on the public internet: not private, local, shared, reserved or multicast."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def _reached(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv4-mapped or NAT64 address, else ``address`` itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return ipaddress.IPv4Address(address.packed[-4:]) if address in _TRANSLATED else address
