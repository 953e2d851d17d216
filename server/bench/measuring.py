"""A plan from its first request to its figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from server.bench.asking import Asking
from server.bench.client import Client
from server.bench.figures import Figures, figures_of
from server.bench.loads import Closed, Load
from server.bench.running import run
from server.bench.summary import Summary, summary_of

_WARM_UP_AT_ONCE = 2


async def measure(
    loads: Sequence[Load], client: Client, asking: Asking, *, warm_up: int, buffer: float
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
