import contextlib
from dataclasses import dataclass

import pytest

from engine.transfer import Endpoint, Record, Wakeup, pair

PATIENCE = 10.0


@dataclass
class End:
    """One end of a link in this process, with a wakeup of its own as a stage would have."""

    endpoint: Endpoint
    wakeup: Wakeup

    def wait_for(self, predicate):
        assert self.wakeup.wait_for(predicate, PATIENCE), "nothing came"

    def take(self, count) -> list[Record]:
        """Waits for the next ``count`` records; more would be a surprise."""
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
    """A factory of links, both of whose ends are in this process."""
    with contextlib.ExitStack() as ends:

        def make(*, window=8, capacity=1 << 16, timeout=PATIENCE, backlog=None):
            made = []
            for side in pair(window=window, capacity=capacity):
                wakeup = Wakeup()
                made.append(End(ends.enter_context(side.attach(wakeup, timeout, backlog=backlog)), wakeup))
            return made

        yield make
