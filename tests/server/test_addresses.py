"""Which addresses recordings may be fetched from."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from server.references.addresses import AddressRule
from server.references.config import ReferenceSettings

PUBLIC = "8.8.8.8 1.1.1.1 93.184.216.34 2606:4700:4700::1111 2a00:1450:4001:80b::200e 64:ff9b::808:808 ::ffff:8.8.8.8"
NOT_PUBLIC = {
    "this machine": "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::127.0.0.1 64:ff9b::7f00:1",
    "unspecified": "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0",
    "private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fd00::1 fc00::1 fec0::1 ::ffff:10.0.0.1 64:ff9b::a00:1",
    "link-local": "169.254.0.1 fe80::1 fe80::1%1 ::ffff:169.254.169.254",
    "metadata": "169.254.169.254 fd00:ec2::254 fd20:ce::254 100.100.100.200 168.63.129.16 192.0.0.192",
    "carrier-grade NAT": "100.64.0.1 100.127.255.255 ::ffff:100.64.0.1",
    "multicast": "224.0.0.1 239.255.255.250 ff02::1 ff0e::1 255.255.255.255",
    "reserved": "240.0.0.1 192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1 100::1 5f00::1",
    "tunnels": "2002:a00:1::1 2002:808:808::1 2001::1 192.88.99.1 64:ff9b:1::a00:1",
}


@pytest.mark.parametrize("address", PUBLIC.split())
def test_permits_public_addresses(address: str) -> None:
    assert AddressRule.of([]).permits("a.example", address)


@pytest.mark.parametrize(
    ("kind", "address"), [(kind, each) for kind in NOT_PUBLIC for each in NOT_PUBLIC[kind].split()]
)
def test_refuses_other_addresses(kind: str, address: str) -> None:
    assert not AddressRule.of([]).permits("a.example", address)


def test_permits_any_address_of_a_named_host() -> None:
    rule = AddressRule.of(["Media.Intranet."])
    assert rule.permits("media.intranet", "10.0.0.5")
    assert rule.permits("MEDIA.intranet.", "10.0.0.5")
    assert not rule.permits("other.intranet", "10.0.0.5")
    assert not rule.permits("media.intranet.evil.example", "10.0.0.5")


def test_permits_the_addresses_of_a_network_under_any_name_and_notation() -> None:
    rule = AddressRule.of(["10.1.0.0/16", "fd12::/16", "127.0.0.1"])
    for address in ("10.1.255.1", "::ffff:10.1.2.3", "fd12::5", "127.0.0.1"):
        assert rule.permits("a.example", address)
    for address in ("10.2.0.1", "fd13::5", "127.0.0.2", "::1"):
        assert not rule.permits("a.example", address)


@pytest.mark.parametrize(
    "entry", ["", "http://a.example", "a.example:80", "10.0.0.0/33", "10.0.0", "a b", "*.a", "a/8"]
)
def test_refuses_a_setting_that_is_neither_a_name_nor_a_network(entry: str) -> None:
    with pytest.raises(ValidationError, match="private_hosts"):
        ReferenceSettings(private_hosts=(entry,))
