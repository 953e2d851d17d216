"""How clients are identified: by key, address or network."""

from __future__ import annotations

import pytest

from server.http.clients import client_of


@pytest.mark.parametrize(
    ("scope", "client"),
    [
        ({"client": ("192.0.2.7", 5000)}, "192.0.2.7"),
        ({"client": ("2001:db8:1:2:3:4:5:6", 5000)}, "2001:db8:1:2::/64"),
        ({"client": ("2001:db8:1:2:ffff::9", 5001)}, "2001:db8:1:2::/64"),
        ({"client": ("::ffff:192.0.2.7", 5000)}, "192.0.2.7"),
        ({"client": ("fe80::1%eth0", 5000)}, "fe80::/64"),
        ({"client": ("not:an:address", 5000)}, "unknown"),
        ({"client": None}, "local"),
        ({}, "local"),
        ({"client": ("192.0.2.7", 5000), "state": {"key_id": "k1"}}, "k1"),
        ({"client": ("192.0.2.7", 5000), "state": {}}, "192.0.2.7"),
    ],
)
def test_identifies_the_client_of_a_scope(scope: dict, client: str) -> None:
    assert client_of(scope) == client
