"""Loads in a row, under a name, so that two servers are asked the same."""

from __future__ import annotations

from collections.abc import Iterable

from server.bench.loads import Audience, Closed, Load, Open

_FEWEST = 40
"""Requests of a load: the 95th percentile of fewer is one of the two worst."""


def open_load(rate: float, requests: int | None, seconds: float | None, *, even: bool, seed: int) -> Open:
    """A rate for as long as is said: 20 s when nothing is, but at least ``_FEWEST`` requests."""
    if requests is None and seconds is None:
        requests = max(_FEWEST, round(20 * rate))
    return Open(rate, requests, seconds, even, seed)


def closed_load(at_once: int, requests: int | None, seconds: float | None) -> Closed:
    """So many at once for as long as is said: four requests each when nothing is, but at least ``_FEWEST``."""
    if requests is None and seconds is None:
        requests = max(_FEWEST, 4 * at_once)
    return Closed(at_once, requests, seconds)


def audience(listeners: int, requests: int | None, seconds: float | None) -> Audience:
    """So many listeners for as long as is said: 20 s when nothing is."""
    return Audience(listeners, requests, 20.0 if requests is None and seconds is None else seconds)


_PLANS: dict[str, tuple[Iterable[float], Iterable[int]]] = {
    "cpu": ((0.5, 1, 2), (1, 2, 4, 8)),
    "gpu": ((1, 6, 10, 20, 40), (1, 8, 32, 64, 128, 256)),
}
"""Name -> requests a second, requests at once."""

PLANS = tuple(_PLANS)
"""The names there are."""


def planned(name: str, requests: int | None, seconds: float | None, *, even: bool, seed: int) -> list[Load]:
    """The loads of a plan, gentle ones first."""
    rates, counts = _PLANS[name]
    opened = [open_load(rate, requests, seconds, even=even, seed=seed) for rate in rates]
    return [*opened, *(closed_load(count, requests, seconds) for count in counts)]
