"""Measures a plan, and summarizes it: percentiles, and the share of real-time clients served well."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from server.bench.client import Client
from server.bench.figures import Figures, figures_of
from server.bench.run import Run, run
from server.bench.workload import Closed, Load, Workload

CONTINUOUS = 0.1
"""Seconds of silence in all that a listener is said not to mind: the bound by which servers of speech are compared."""
PERCENTS = (50, 90, 95, 99)

_MEASURED: dict[str, Callable[[Figures], float]] = {
    "sent": lambda figures: figures.sent,
    "connect": lambda figures: figures.connect,
    "header": lambda figures: figures.header,
    "first_byte": lambda figures: figures.first_byte,
    "playable": lambda figures: figures.playable,
    "audible": lambda figures: figures.audible,
    "heard": lambda figures: figures.heard,
    "total": lambda figures: figures.total,
    "gap": lambda figures: figures.gap,
    "underrun": lambda figures: figures.underrun,
    "buffered_underrun": lambda figures: figures.buffered_underrun,
    "real_time_factor": lambda figures: figures.real_time_factor,
}


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one figure over all requests: p -> the least value that p percent do not exceed, and the largest of all."""

    percentiles: dict[int, float]
    worst: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one load. Spreads are of requests that were answered with speech, in seconds but for the real-time factor.

    began: Unix time. outcomes: how many requests ended how; details: an example of each that is not ``"ok"``.
    seconds: from the first request to the last answer. continuity: the share of listeners who were without audio for
    at most ``CONTINUOUS``. dry, buffered_dry: how many ran dry at all, of those who play at once and of those who
    wait. short: utterances that are shorter than was asked for. client_busy: the share of one core that the client
    took.
    """

    load: Load
    began: float
    outcomes: dict[str, int]
    details: dict[str, str]
    short: int
    seconds: float
    spreads: dict[str, Spread]
    audio: float
    continuity: float
    underruns: int
    dry: int
    buffered_underruns: int
    buffered_dry: int
    client_busy: float

    @property
    def requests(self) -> int:
        """How many there were."""
        return sum(self.outcomes.values())

    @property
    def good(self) -> int:
        """How many were answered with speech."""
        return self.outcomes.get("ok", 0)

    @property
    def audio_a_second(self) -> float:
        """Seconds of speech that all listeners together were given in a second."""
        return self.audio / self.seconds if self.seconds else 0.0


def summary_of(run: Run, each: Sequence[Figures]) -> Summary:
    """Over the figures of all requests of ``run``."""
    good = [figures for figures in each if figures.ok]
    begin = min((figures.intended for figures in each), default=0.0)
    return Summary(
        load=run.load,
        began=run.date,
        outcomes=dict(Counter(figures.outcome for figures in each).most_common()),
        details={figures.outcome: figures.detail for figures in reversed(each) if not figures.ok},
        short=sum(figures.short for figures in good),
        seconds=max((figures.intended + figures.total for figures in each), default=0.0) - begin,
        spreads={name: spread([of(figures) for figures in good]) for name, of in _MEASURED.items()},
        audio=sum(figures.audio for figures in good),
        continuity=sum(figures.underrun <= CONTINUOUS for figures in good) / len(good) if good else math.nan,
        underruns=sum(figures.underruns for figures in good),
        dry=sum(figures.underruns > 0 for figures in good),
        buffered_underruns=sum(figures.buffered_underruns for figures in good),
        buffered_dry=sum(figures.buffered_underruns > 0 for figures in good),
        client_busy=run.busy / run.seconds if run.seconds else 0.0,
    )


def spread(values: Sequence[float]) -> Spread:
    """Over those of ``values`` that are not NaN: nearest rank, so that each percentile is one that was measured."""
    ordered = sorted(value for value in values if not math.isnan(value))
    if not ordered:
        return Spread(dict.fromkeys(PERCENTS, math.nan), math.nan)
    ranks = {percent: max(0, -(-len(ordered) * percent // 100) - 1) for percent in PERCENTS}
    return Spread({percent: ordered[rank] for percent, rank in ranks.items()}, ordered[-1])


_WARM_UP_AT_ONCE = 2


async def measure(
    loads: Sequence[Load], client: Client, asking: Workload, *, warm_up: int, buffer: float
) -> AsyncIterator[tuple[Summary, list[Figures]]]:
    """Each load when it is over, one after the other.

    warm_up: requests before the first that no figure is of. buffer: seconds that the patient listeners wait.
    """
    if warm_up:
        await run(Closed(_WARM_UP_AT_ONCE, requests=warm_up), client, asking)
    for load in loads:
        done = await run(load, client, asking)
        each = [figures_of(trace, began=done.began, buffer=buffer) for trace in done.traces]
        yield summary_of(done, each), each
