"""SIGKILL of a peer promptly fails exactly the streams of its link."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.transfer import Kind, LinkClosed, Wakeup, pair, spawn

PEER = Path(__file__).with_name("transfer_peer.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PEER.parents[2])}
TIMEOUT = 30.0


@pytest.fixture
def start():
    """A factory of peer processes, which are killed at the end."""
    children = []

    def make(role, *sides, **options):
        words = [side.to_argument() for side in sides]
        flags = [f"--{name}={value}" for name, value in options.items()]
        child = spawn([sys.executable, str(PEER), role, *words, *flags], sides, env=ENVIRONMENT)
        children.append(child)
        return child

    yield make
    for child in children:
        child.kill()
        child.wait(TIMEOUT)


@pytest.fixture
def attach():
    """A factory of endpoints in this process, which are closed at the end."""
    with contextlib.ExitStack() as endpoints:
        yield lambda side, wakeup: endpoints.enter_context(side.attach(wakeup))


def take(wakeup, endpoint, count):
    records = []
    while len(records) < count:
        assert wakeup.wait_for(endpoint.pending, TIMEOUT)
        records += endpoint.receive()
    return records


def kinds(records):
    return {(record.stream, record.kind) for record in records}


def exchange(wakeup, endpoint, stream, payload):
    """Send ``payload`` and receive its echo."""
    endpoint.send(stream, payload, 1)
    (record,) = take(wakeup, endpoint, 1)
    assert (record.stream, record.kind, record.payload) == (stream, Kind.DATA, payload)
    endpoint.release(stream, 1)


def test_a_killed_peer_fails_its_own_streams_and_no_others(start, attach):
    wakeup = Wakeup()
    links = [pair(window=8) for _ in range(2)]
    killed_link, healthy = (attach(near, wakeup) for near, _ in links)
    children = [start("echo", far) for _, far in links]
    for endpoint in (killed_link, healthy):
        for stream in (1, 2, 3):
            endpoint.open(stream)
        endpoint.end(2)
        take(wakeup, endpoint, 4)
    exchange(wakeup, killed_link, 1, b"before")

    killed_at = time.monotonic()
    children[0].send_signal(signal.SIGKILL)
    records = take(wakeup, killed_link, 4)
    print(f"noticed after {(time.monotonic() - killed_at) * 1e3:.2f} ms")

    assert kinds(records) == {(1, Kind.FAIL), (3, Kind.FAIL), (1, Kind.CANCEL), (3, Kind.CANCEL)}
    assert killed_link.receive() == []
    assert killed_link.open_streams == frozenset()
    with pytest.raises(LinkClosed):
        killed_link.send(1, b"", 1)
    assert not healthy.pending()
    for stream in (1, 3):
        exchange(wakeup, healthy, stream, b"after")


def test_everything_sent_before_death_is_delivered_and_death_comes_last(start, attach):
    wakeup = Wakeup()
    near, far = pair(window=500)
    endpoint = attach(near, wakeup)
    child = start("echo", far)
    endpoint.open(1)
    for number in range(500):
        endpoint.send(1, number.to_bytes(2), 1)
    # Each is released before it is echoed, so at most the last echo is missing.
    assert wakeup.wait_for(lambda: endpoint.credit(1) == 500, TIMEOUT)
    child.kill()
    assert wakeup.wait_for(lambda: not endpoint.alive, TIMEOUT)
    opened, *echoes, failed, cancelled = endpoint.receive()
    assert [record.kind for record in (opened, failed, cancelled)] == [Kind.OPEN, Kind.FAIL, Kind.CANCEL]
    assert len(echoes) >= 499
    assert [int.from_bytes(record.payload) for record in echoes] == list(range(len(echoes)))


@pytest.mark.parametrize("victim", ["one", "other"])
def test_two_children_notice_the_death_of_each_other(start, attach, victim):
    """The parent, which created their link, must not keep the dead side open."""
    wakeup = Wakeup()
    one, other = pair(window=8)
    reports, children = {}, {}
    for name, side in (("one", one), ("other", other)):
        near, far = pair(window=8)
        reports[name] = attach(near, wakeup)
        children[name] = start("witness", far, side, open=7)
    for endpoint in reports.values():
        opened = take(wakeup, endpoint, 2)
        assert json.loads(opened[1].payload)["kind"] == "OPEN"

    killed_at = time.monotonic()
    children[victim].send_signal(signal.SIGKILL)
    (survivor,) = reports.keys() - {victim}
    events = [json.loads(record.payload) for record in take(wakeup, reports[survivor], 2)]
    print(f"noticed by the other child after {(events[0]['at'] - killed_at) * 1e3:.2f} ms")
    assert [(record["stream"], record["kind"]) for record in events] == [(7, "FAIL"), (7, "CANCEL")]
    assert reports[survivor].alive


def test_a_child_started_later_does_not_hide_a_death(start, attach):
    """It inherits every inheritable descriptor, so ours must not be inheritable."""
    wakeup = Wakeup()
    near, far = pair(window=8)
    endpoint = attach(near, wakeup)
    start("echo", far).kill()
    later_child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        assert wakeup.wait_for(lambda: not endpoint.alive, TIMEOUT)
    finally:
        later_child.communicate(timeout=TIMEOUT)


def test_the_death_of_a_parent_ends_its_children(start, attach):
    """A child of a killed process sees the end of its link and exits by itself."""
    script = (
        "import sys, time\n"
        "from engine.transfer import Wakeup, pair, spawn\n"
        "near, far = pair(window=8)\n"
        "endpoint = near.attach(Wakeup())\n"
        f"child = spawn([sys.executable, {str(PEER)!r}, 'echo', far.to_argument()], [far])\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    child = int(parent.stdout.readline())
    watch = os.pidfd_open(child)
    parent.kill()
    parent.communicate(timeout=TIMEOUT)
    assert select.select([watch], [], [], TIMEOUT)[0]
    os.close(watch)


def test_nothing_is_left_after_all_processes_are_killed(start, attach):
    before = set(os.listdir("/dev/shm"))
    wakeup = Wakeup()
    near, far = pair(window=8)
    report = attach(near, wakeup)
    one, other = pair(window=8)
    children = [start("witness", far, one, open=7), start("echo", other)]
    take(wakeup, report, 2)
    for child in children:
        child.kill()
        child.wait(TIMEOUT)
    assert set(os.listdir("/dev/shm")) <= before
