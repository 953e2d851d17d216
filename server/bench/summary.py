"""Measures loads and summarizes them: percentiles, and the share of clients served in real time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from server.bench.client import Client
from server.bench.figures import Figures, figures_of
from server.bench.run import Run, run
from server.bench.workload import Closed, Load, Workload

CONTINUOUS_SECONDS = 0.1
"""Maximum total seconds of underruns for continuous playback; the usual threshold for comparing speech servers."""
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
    """The distribution of one metric over all requests: percentile -> value, and the largest value."""

    percentiles: dict[int, float]
    worst: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of one load.

    Attributes:
        began: Unix time.
        outcomes: number of requests by outcome.
        details: an example message for each outcome other than ``"ok"``.
        short: number of utterances that are shorter than requested.
        seconds: from the first request to the end of the last response.
        spreads: distributions over the requests answered with speech, in seconds except for the real-time factor.
        audio: total seconds of speech.
        continuity: share of clients with at most ``CONTINUOUS_SECONDS`` of underruns.
        underruns: number of underruns of clients that play from the first byte on.
        with_underruns: number of those clients that had any underrun.
        buffered_underruns: number of underruns of clients that buffer first.
        with_buffered_underruns: number of those clients that had any underrun.
        client_busy: CPU usage of the client, as a share of one core.
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
    with_underruns: int
    buffered_underruns: int
    with_buffered_underruns: int
    client_busy: float

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(self.outcomes.values())

    @property
    def succeeded(self) -> int:
        """Number of requests answered with speech."""
        return self.outcomes.get("ok", 0)

    @property
    def audio_per_second(self) -> float:
        """Seconds of speech per second, over all clients."""
        return self.audio / self.seconds if self.seconds else 0.0


def summary_of(run: Run, each: Sequence[Figures]) -> Summary:
    """Summarize ``run``, given the metrics of each of its requests."""
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
        continuity=sum(figures.underrun <= CONTINUOUS_SECONDS for figures in good) / len(good) if good else math.nan,
        underruns=sum(figures.underruns for figures in good),
        with_underruns=sum(figures.underruns > 0 for figures in good),
        buffered_underruns=sum(figures.buffered_underruns for figures in good),
        with_buffered_underruns=sum(figures.buffered_underruns > 0 for figures in good),
        client_busy=run.busy / run.seconds if run.seconds else 0.0,
    )


def spread(values: Sequence[float]) -> Spread:
    """Return the distribution of ``values``, ignoring NaN. Percentiles use nearest rank: each is a measured value."""
    ordered = sorted(value for value in values if not math.isnan(value))
    if not ordered:
        return Spread(dict.fromkeys(PERCENTS, math.nan), math.nan)
    ranks = {percent: max(0, -(-len(ordered) * percent // 100) - 1) for percent in PERCENTS}
    return Spread({percent: ordered[rank] for percent, rank in ranks.items()}, ordered[-1])


_WARM_UP_CONCURRENCY = 2


async def measure(
    loads: Sequence[Load], client: Client, workload: Workload, *, warm_up: int, buffer: float
) -> AsyncIterator[tuple[Summary, list[Figures]]]:
    """Run the loads one after the other, and yield the summary and the metrics of each when it is complete.

    Args:
        loads: the loads.
        client: sends the requests.
        workload: creates the requests.
        warm_up: number of unmeasured requests before the first load.
        buffer: seconds that buffering clients wait.
    """
    if warm_up:
        await run(Closed(_WARM_UP_CONCURRENCY, requests=warm_up), client, workload)
    for load in loads:
        done = await run(load, client, workload)
        each = [figures_of(trace, began=done.began, buffer=buffer) for trace in done.traces]
        yield summary_of(done, each), each
