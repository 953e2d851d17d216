"""Several peers on one side: their streams do not mix, they join and leave, and none blocks the others."""

import os
import subprocess
import sys

import pytest

from engine.transfer import Kind, LinkClosed, MultiSide, Side, Wakeup, first_stream, multi_pair, spawn

TIMEOUT = 10.0


class Peers:
    """A multi-endpoint in this process, and its peers."""

    def __init__(self, *, window=8, capacity=1 << 16):
        self.wakeup = Wakeup()
        own, sides, self.joiner = multi_pair(window=window, capacity=capacity)
        self.all = sides.attach(self.wakeup)
        self.wakeups = [Wakeup()]
        self.peers = [own.attach(self.wakeups[0])]

    def join(self):
        """Add a peer, and wait until it has joined."""
        number = len(self.peers)
        self.wakeups.append(Wakeup())
        self.peers.append(self.joiner.join(number).attach(self.wakeups[-1]))
        assert [each.kind for each in self.take(number, 2)] == [Kind.OPEN, Kind.END]
        return self.peers[-1]

    def take(self, number, count):
        """The next ``count`` records that a peer receives."""
        records = []
        while len(records) < count:
            assert self.wakeups[number].wait_for(self.peers[number].pending, TIMEOUT)
            records += self.peers[number].receive()
        assert len(records) == count
        return records

    def receive(self, count):
        """The next ``count`` records that arrive from the peers."""
        records = []
        while len(records) < count:
            assert self.wakeup.wait_for(self.all.pending, TIMEOUT)
            records += self.all.receive()
        assert len(records) == count
        return records

    def close(self):
        self.joiner.close()
        for peer in self.peers:
            peer.close()
        self.all.close()


@pytest.fixture
def peers():
    made = []

    def make(**options):
        made.append(Peers(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_each_peer_receives_its_own_streams_only(peers):
    link = peers()
    link.join()
    link.join()
    streams = [7, first_stream(1) + 7, first_stream(2) + 7]
    for stream in streams:
        link.all.open(stream)
    link.all.send_all((stream, str(stream).encode(), 1) for stream in reversed(streams))
    for number, stream in enumerate(streams):
        opened, data = link.take(number, 2)
        assert (opened.stream, data.stream, data.payload) == (stream, stream, str(stream).encode())


def test_what_all_peers_send_arrives_in_their_order(peers):
    link = peers()
    other = link.join()
    link.peers[0].open(1, b"first")
    other.open(first_stream(1) + 1, b"other")
    other.end(first_stream(1) + 1)
    received = link.receive(3)
    assert [each.payload for each in received if each.stream == 1] == [b"first"]
    assert [each.kind for each in received if each.stream != 1] == [Kind.OPEN, Kind.END]


def test_credit_is_that_of_the_peer(peers):
    link = peers(window=5)
    link.join()
    streams = [3, first_stream(1) + 3, first_stream(9) + 3]
    for stream in streams:
        link.all.open(stream)
    link.all.send_all([(streams[1], b"abc", 4)])
    assert link.all.credits(streams) == [5, 1, 0]


def test_streams_of_a_peer_that_leaves_end_and_the_others_go_on(peers):
    link = peers()
    other = link.join()
    stream = first_stream(1) + 1
    other.open(stream)
    link.receive(1)
    link.all.open(stream)
    link.all.open(1)
    other.close()
    assert {(each.stream, each.kind) for each in link.receive(2)} == {(stream, Kind.FAIL), (stream, Kind.CANCEL)}
    link.all.send_all([(stream, b"discarded", 1), (1, b"for the first", 1)])
    link.all.end(stream)
    link.all.open(first_stream(1) + 2)
    assert [each.payload for each in link.take(0, 2)] == [b"", b"for the first"]
    assert link.all.alive


def test_a_peer_that_does_not_read_loses_its_link_and_blocks_nobody(peers, monkeypatch):
    monkeypatch.setattr("engine.transfer.multi_endpoint._BACKLOG", 10_000)
    link = peers(window=1000, capacity=1024)
    link.join()
    for stream in (1, first_stream(1) + 1):
        link.all.open(stream)
    for _ in range(100):
        link.all.send_all([(first_stream(1) + 1, bytes(200), 1)])
    [cancelled] = link.receive(1)
    assert (cancelled.stream, cancelled.kind) == (first_stream(1) + 1, Kind.CANCEL)
    link.all.send_all([(1, b"for the first", 1)])
    assert link.take(0, 2)[1].payload == b"for the first"


def test_it_ends_with_its_first_peer(peers):
    link = peers()
    link.join()
    link.peers[0].close()
    assert link.wakeup.wait_for(lambda: not link.all.alive, TIMEOUT)
    with pytest.raises(LinkClosed):
        link.all.open(1)


def test_no_peer_joins_after_its_end(peers):
    link = peers()
    link.all.close()
    with pytest.raises(OSError):
        link.joiner.join(1)


def test_further_links_are_accepted_after_one_whose_descriptors_did_not_arrive(peers):
    link = peers()
    link.joiner._connection.send(bytes(32))
    other = link.join()
    other.open(first_stream(1) + 1, b"accepted")
    assert link.receive(1)[0].payload == b"accepted"


def test_closing_frees_all_descriptors():
    before = set(os.listdir("/proc/self/fd"))
    link = Peers()
    link.join()
    link.close()
    own, sides, joiner = multi_pair(window=1, capacity=1024)
    own.close()
    sides.close()
    joiner.close()
    assert set(os.listdir("/proc/self/fd")) == before


CHILD = """
import sys
from engine.transfer import Kind, MultiSide, Wakeup
wakeup = Wakeup()
with MultiSide.from_argument(sys.argv[1]).attach(wakeup) as endpoint:
    while endpoint.alive:
        wakeup.wait_for(lambda: endpoint.pending() or not endpoint.alive)
        for record in endpoint.receive():
            if record.kind is Kind.OPEN:
                endpoint.open(record.stream)
                endpoint.end(record.stream, record.payload[::-1])
"""


def test_a_peer_joins_a_child_process():
    own, sides, joiner = multi_pair(window=4, capacity=1 << 16)
    child = spawn([sys.executable, "-c", CHILD, sides.to_argument()], [sides])
    first, second = Wakeup(), Wakeup()
    with own.attach(first) as one, joiner.join(1).attach(second) as other:
        for endpoint, wakeup, stream in ((one, first, 5), (other, second, first_stream(1) + 5)):
            endpoint.open(stream, b"abc")
            answers = []
            while not any(each.payload for each in answers):
                assert wakeup.wait_for(endpoint.pending, TIMEOUT)
                answers += endpoint.receive()
            assert answers[-1].payload == b"cba"
    assert child.wait(TIMEOUT) == 0
    joiner.close()


def test_sides_survive_a_command_line_and_are_not_inherited_further():
    own, sides, joiner = multi_pair(window=1, capacity=1024)
    for descriptor in sides.descriptors:
        os.set_inheritable(descriptor, True)
    assert MultiSide.from_argument(sides.to_argument()) == sides
    assert not any(os.get_inheritable(descriptor) for descriptor in sides.descriptors)
    assert isinstance(sides.first, Side)
    for each in (own, sides, joiner):
        each.close()


def test_a_failed_start_closes_the_sides():
    own, sides, joiner = multi_pair(window=1, capacity=1024)
    with pytest.raises(OSError):
        spawn([os.devnull + "/missing"], [sides], stdout=subprocess.DEVNULL)
    for descriptor in sides.descriptors:
        with pytest.raises(OSError):
            os.fstat(descriptor)
    own.close()
    joiner.close()


def test_an_announcement_of_one_peer_outlasts_the_streams_of_others(peers):
    both = peers()
    other = both.join()
    assert both.all.announced == 0
    both.peers[0].announce()
    announced = both.all.announced
    other.open(first_stream(1) + 1)
    both.receive(1)
    assert both.all.announced == announced > 0
    both.peers[0].open(1)
    both.receive(1)
    assert both.all.announced == 0
