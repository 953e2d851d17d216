"""Which addresses may be fetched from: public ones, and those that the configuration names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Self

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 behind a NAT64: the last four bytes are the address that is reached."""
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All IPv6 that is given out to the public."""
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "100.64.0.0/10",  # carrier-grade NAT
        "168.63.129.16/32",  # the metadata service of Azure's machines
        "192.0.0.0/24",  # protocol assignments, and the metadata service of Oracle's machines
        "192.88.99.0/24",  # relays of 6to4
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4: an IPv4 address, maybe a private one, inside
        "3fff::/20",  # documentation
    )
)
"""What ``ipaddress`` of some Python version takes for public."""


class AddressRule:
    """The public addresses, and beside them those of named hosts and networks."""

    def __init__(self, names: Iterable[str], networks: Iterable[Network]) -> None:
        self._names = frozenset(names)
        self._networks = tuple(networks)

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        """The rule with ``entries`` of ``references.private_hosts``. Raises ValueError."""
        parsed = [parse_entry(entry) for entry in entries]
        return cls(
            (each for each in parsed if isinstance(each, str)),
            (each for each in parsed if not isinstance(each, str)),
        )

    def permits(self, host: str, address: str) -> bool:
        """Whether ``host`` may be fetched from at ``address``."""
        if host.lower().rstrip(".") in self._names:
            return True
        reached = _reached(ipaddress.ip_address(address))
        return is_public(reached) or any(reached in network for network in self._networks)


def parse_entry(entry: str) -> str | Network:
    """A host name in small letters, or a network (an address is one of a single address). Raises ValueError."""
    try:
        return ipaddress.ip_network(entry.strip(), strict=False)
    except ValueError:
        name = entry.strip().lower().rstrip(".")
        last = name.rpartition(".")[2]
        if not _NAME.fullmatch(name) or last.isdecimal():
            raise ValueError(f"{entry!r} is neither a host name nor an address nor a network") from None
        return name


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could reach ``address`` too: not private, local, shared, reserved or for many."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def _reached(address: Address) -> Address:
    """The IPv4 address that an IPv6 one only wraps, else ``address``."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return ipaddress.IPv4Address(address.packed[-4:]) if address in _TRANSLATED else address
