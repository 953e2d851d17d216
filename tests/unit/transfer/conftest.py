import contextlib
from dataclasses import dataclass

import pytest

from engine.transfer import Endpoint, Record, Wakeup, pair

TIMEOUT = 10.0


@dataclass
class End:
    """One end of a link in this process, with its own wakeup, as in a stage."""

    endpoint: Endpoint
    wakeup: Wakeup

    def wait_for(self, predicate):
        assert self.wakeup.wait_for(predicate, TIMEOUT), "nothing was received"

    def take(self, count) -> list[Record]:
        """Wait for the next ``count`` records; assert that there are no more."""
        records = []
        while len(records) < count:
            self.wait_for(self.endpoint.pending)
            records += self.endpoint.receive()
        assert len(records) == count
        return records

    def wait_for_death(self):
        self.wait_for(lambda: not self.endpoint.alive)


@pytest.fixture
def link():
    """A factory of links with both ends in this process."""
    with contextlib.ExitStack() as ends:

        def make(*, window=8, capacity=1 << 16, timeout=TIMEOUT, backlog=None, reserve=0):
            ends_of_link = []
            for side in pair(window=window, capacity=capacity):
                wakeup = Wakeup()
                endpoint = side.attach(wakeup, timeout, backlog=backlog, reserve=reserve)
                ends_of_link.append(End(ends.enter_context(endpoint), wakeup))
            return ends_of_link

        yield make
