import os
import subprocess
import sys

import pytest

from engine.transfer import Kind, Side, Wakeup, pair, spawn

TIMEOUT = 10.0


@pytest.mark.parametrize(("window", "capacity"), [(0, 1024), (2**32, 1024), (1, 0), (1, 224), (1, 1000)])
def test_refuses_an_impossible_link(window, capacity):
    with pytest.raises(ValueError, match="must be"):
        pair(window=window, capacity=capacity)


def test_the_smallest_link_works():
    near, far = (side.attach(Wakeup()) for side in pair(window=1, capacity=256))
    near.open(1, b"fragments of a quarter of the ring")
    assert far.receive()[0].payload == b"fragments of a quarter of the ring"
    near.close()
    far.close()


def test_descriptors_are_not_inheritable_by_default():
    sides = pair(window=1)
    descriptors = [descriptor for side in sides for descriptor in (side.memory, side.connection)]
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    restored = [Side.from_argument(side.to_argument()) for side in sides]
    assert restored == list(sides)
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
    for side in sides:
        side.close()


CHILD = """
import sys
from engine.transfer import Kind, Side, Wakeup
wakeup = Wakeup()
with Side.from_argument(sys.argv[1]).attach(wakeup) as endpoint:
    while endpoint.alive:
        wakeup.wait_for(endpoint.pending)
        for record in endpoint.receive():
            if record.kind is Kind.DATA:
                endpoint.open(record.stream)
                endpoint.send(record.stream, record.payload[::-1], 1)
                endpoint.end(record.stream)
    assert "torch" not in sys.modules
"""


def assert_echoes(endpoint, wakeup):
    endpoint.open(3)
    endpoint.send(3, b"abc", 1)
    records = []
    while len(records) < 3:
        assert wakeup.wait_for(endpoint.pending, TIMEOUT)
        records += endpoint.receive()
    assert [record.kind for record in records] == [Kind.OPEN, Kind.DATA, Kind.END]
    assert records[1].payload == b"cba"


def test_a_child_process_answers_over_the_side_passed_to_it():
    near, far = pair(window=4)
    child = spawn([sys.executable, "-c", CHILD, far.to_argument()], [far])
    wakeup = Wakeup()
    with near.attach(wakeup) as endpoint:
        assert_echoes(endpoint, wakeup)
    assert child.wait(TIMEOUT) == 0


def test_a_child_can_pass_its_side_on_to_its_own_child():
    middle = """
import sys
from engine.transfer import Side, spawn
side = Side.from_argument(sys.argv[1])
raise SystemExit(spawn([sys.executable, "-c", sys.argv[2], side.to_argument()], [side]).wait(30))
"""
    near, far = pair(window=4)
    child = spawn([sys.executable, "-c", middle, far.to_argument(), CHILD], [far])
    wakeup = Wakeup()
    with near.attach(wakeup) as endpoint:
        assert_echoes(endpoint, wakeup)
    assert child.wait(TIMEOUT) == 0


def test_a_side_is_closed_if_its_child_cannot_start():
    near, far = pair(window=4)
    with pytest.raises(FileNotFoundError):
        spawn(["/nonexistent/program", far.to_argument()], [far])
    wakeup = Wakeup()
    with near.attach(wakeup) as endpoint:
        assert wakeup.wait_for(lambda: not endpoint.alive, TIMEOUT)


def test_a_child_that_dies_before_it_attaches_is_a_dead_peer():
    near, far = pair(window=4)
    child = spawn([sys.executable, "-c", "raise SystemExit(3)"], [far], stdout=subprocess.DEVNULL)
    wakeup = Wakeup()
    with near.attach(wakeup) as endpoint:
        endpoint.open(1)
        assert wakeup.wait_for(lambda: not endpoint.alive, TIMEOUT)
        assert [record.kind for record in endpoint.receive()] == [Kind.CANCEL]
    assert child.wait(TIMEOUT) == 3
