"""Network addresses and ports as words: 192.168.1.1/24, 2001:db8::1, fe80::1%eth0, 00:1A:2B:3C:4D:5E, 8080:80."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_IP = r"""
    (?<![\w.]) (?P<address>\d{1,3}(?:\.\d{1,3}){3}) (?:/(?P<mask>\d{1,2}))? (?::(?P<port>\d{1,5}))? (?!\w|\.\d)
"""
_GROUP = "[0-9A-Fa-f]{1,4}"
_IPV6 = rf"""
    (?<![\w:.])
    (?P<address> (?=[\d:]{{0,40}}[A-Fa-f]) {_GROUP}(?::{_GROUP}){{7}}
      | (?=[A-Fa-f:]{{0,20}}\d) (?: (?:{_GROUP}(?::{_GROUP}){{0,6}})?::{_GROUP}(?::{_GROUP}){{0,6}}
        | {_GROUP}(?::{_GROUP}){{1,6}}:: | {_GROUP}::(?=/\d) ) )
    (?:%(?P<interface>[A-Za-z][A-Za-z0-9]{{0,14}}))? (?:/(?P<mask>\d{{1,3}}))? (?![\w:]|\.\d)
"""
"""An address with all eight groups, or with two colons for groups of zeros."""
_IPV6_PORT = rf"\[(?P<address>[0-9A-Fa-f:]{{1,39}}:{_GROUP}|::)\]:(?P<port>\d{{1,5}})(?!\w)"
_MAC = r"(?<![\w:-])[0-9A-Fa-f]{2}(?:(?P<mark>[:-])[0-9A-Fa-f]{2})(?:(?P=mark)[0-9A-Fa-f]{2}){4}(?![\w:-])"
_PORTS = r"(?<![\w.,:/])(?P<host>[1-9]\d{3,4}):(?P<container>[1-9]\d{1,4})(?![\w:]|[.,]\d)"
"""A port of the host and one of the container."""
_PORTS_SOMEWHERE = lazy(r"\b(?:ports?|docker|compose|container|forward\w*|expos\w+|localhost|ssh)\b|-p ", re.IGNORECASE)
_USUAL_PORTS = frozenset("80 443 8080".split())


@lru_cache(8)
def _mentions_ports(text: str) -> bool:
    return bool(_PORTS_SOMEWHERE.search(text))


def _ip(match: re.Match[str]) -> str:
    words = " dot ".join(map(_octet, match["address"].split(".")))
    if match["mask"]:
        words += f" slash {numbers.cardinal(int(match['mask']))}"
    return words + (f" colon {numbers.grouped(match['port'])}" if match["port"] else "")


def _octet(text: str) -> str:
    return numbers.digits(text) if len(text) > 2 else numbers.number(text)


def _ipv6(match: re.Match[str]) -> str:
    words = _groups(match["address"])
    if match["interface"]:
        words += f" percent {letters.part(match['interface'].rstrip('0123456789'))}"
        words += "".join(f" {numbers.cardinal(int(each))}" for each in re.findall(r"\d+", match["interface"]))
    return words + (f" slash {numbers.cardinal(int(match['mask']))}" if match["mask"] else "")


def _groups(address: str) -> str:
    """Return an IPv6 address character by character, with its colons."""
    return " ".join(
        " ".join(["colon"] * len(piece)) if piece[0] == ":" else letters.spell(" ".join(piece))
        for piece in re.findall(r":+|\w+", address)
    )


def _ports(match: re.Match[str]) -> str:
    """Return two ports. In a text that is not about ports, other numbers are a ratio or a size."""
    host, container = match["host"], match["container"]
    if not (container in _USUAL_PORTS or host == container or _mentions_ports(match.string)):
        return match[0]
    return f"{numbers.grouped(host)} colon {numbers.grouped(container)}"


RULES: tuple[Rule, ...] = (
    rule(_IPV6_PORT, lambda match: f"{_groups(match['address'])} colon {numbers.grouped(match['port'])}", "]:"),
    rule(_IPV6, _ipv6, "two colons"),
    rule(_IP, _ip, [rf".{each}." for each in (r"\d", r"\d\d", r"\d\d\d")]),
    rule(_MAC, lambda match: ", ".join(letters.spell(" ".join(each)) for each in re.split("[:-]", match[0])), "byte"),
    rule(_PORTS, _ports, "digit:"),
    rule(r"\bIPv(?P<version>[46])\b", lambda match: f"I P V {numbers.cardinal(int(match['version']))}", "IPv"),
)
"""Run before code, in which "::" is an operator, and before times and ratios."""
