"""How requests come: at a rate that heeds no answer, a number at a time, or from listeners who hear each to its end."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Open:
    """Requests come at ``rate`` a second whether or not the ones before are answered, as strangers do.

    It ends after ``requests`` of them or ``seconds``, whichever is first. Poisson arrivals, drawn from ``seed``,
    or ``even`` ones.
    """

    rate: float
    requests: int | None = None
    seconds: float | None = None
    even: bool = False
    seed: int = 7

    def __str__(self) -> str:
        return f"{self.rate:g} a second"

    def arrivals(self) -> Iterator[float]:
        """Seconds after the beginning at which a request comes; the first comes at once."""
        for _, at in zip(_numbers(self.requests), self._moments(), strict=False):
            if self.seconds is not None and at >= self.seconds:
                return
            yield at

    def _moments(self) -> Iterator[float]:
        if self.even:
            return (number / self.rate for number in itertools.count())
        draw = random.Random(self.seed)
        return itertools.accumulate((draw.expovariate(self.rate) for _ in itertools.count()), initial=0.0)


@dataclass(frozen=True, slots=True)
class Closed:
    """``at_once`` clients, each of which asks again as soon as it has its answer.

    It ends when ``requests`` have been asked, or nobody asks any more after ``seconds``.
    """

    at_once: int
    requests: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.at_once} at once"

    def numbers(self) -> Iterator[int]:
        """One for each request, to be drawn by whichever client is free."""
        return iter(_numbers(self.requests))


@dataclass(frozen=True, slots=True)
class Audience:
    """``listeners``, each of whom asks again when the answer has been played to its end, not when it has come.

    So each is one who listens all the time, and all together are given as many seconds of audio a second. They begin
    evenly over ``spread`` seconds, as long as a sentence takes, and nobody asks any more after ``seconds``.
    """

    listeners: int
    requests: int | None = None
    seconds: float | None = None
    spread: float = 4.0

    def __str__(self) -> str:
        return f"{self.listeners} listeners"

    def numbers(self) -> Iterator[int]:
        """One for each request, to be drawn by whichever listener asks next."""
        return iter(_numbers(self.requests))


Load = Open | Closed | Audience


def _numbers(count: int | None) -> Iterator[int]:
    return itertools.count() if count is None else iter(range(count))
