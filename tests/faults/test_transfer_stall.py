"""A peer that is alive but stopped: its streams run out of credit or stall, and no call hangs."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from engine.transfer import Kind, LinkStalled, Wakeup, pair, spawn

PEER = Path(__file__).with_name("transfer_peer.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PEER.parents[2])}
TIMEOUT = 30.0


@contextlib.contextmanager
def stopped_peer(**options):
    """Yield an endpoint whose peer echoed one stream and was then stopped, its wakeup, and the process."""
    near, far = pair(**options)
    wakeup = Wakeup()
    with near.attach(wakeup, timeout=0.2) as endpoint:
        child = spawn([sys.executable, str(PEER), "echo", far.to_argument()], [far], env=ENVIRONMENT)
        try:
            endpoint.open(1)
            assert wakeup.wait_for(endpoint.pending, TIMEOUT)
            assert [record.kind for record in endpoint.receive()] == [Kind.OPEN]
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED)
            yield endpoint, wakeup, child
        finally:
            child.kill()
            child.wait(TIMEOUT)


def collect(endpoint, wakeup, count):
    payloads = []
    while len(payloads) < count:
        assert wakeup.wait_for(endpoint.pending, TIMEOUT)
        for record in endpoint.receive():
            payloads.append(record.payload)
            endpoint.release(record.stream, record.units)
    return payloads


def test_a_stopped_peer_exhausts_the_credit_and_continues_later():
    with stopped_peer(window=10) as (endpoint, wakeup, child):
        sent = [bytes([number]) for number in range(10)]
        for payload in sent:
            endpoint.send(1, payload, 1)
        assert endpoint.credit(1) == 0
        assert not wakeup.wait_for(lambda: endpoint.credit(1) > 0, 0.2)
        assert endpoint.alive
        child.send_signal(signal.SIGCONT)
        assert collect(endpoint, wakeup, 10) == sent
        assert wakeup.wait_for(lambda: endpoint.credit(1) == 10, TIMEOUT)


def test_a_full_ring_of_a_stopped_peer_is_a_stall_without_loss():
    with stopped_peer(window=1000, capacity=4096) as (endpoint, wakeup, child):
        sent = []
        with pytest.raises(LinkStalled):
            while True:
                payload = bytes([len(sent)]) * 100
                endpoint.send(1, payload, 1)
                sent.append(payload)
        assert endpoint.credit(1) == 1000 - len(sent)
        endpoint.cancel(1)
        child.send_signal(signal.SIGCONT)
        assert collect(endpoint, wakeup, len(sent)) == sent
        endpoint.end(1)
        assert wakeup.wait_for(endpoint.pending, TIMEOUT)
        assert [record.kind for record in endpoint.receive()] == [Kind.END]
        assert endpoint.open_streams == frozenset()


def test_killing_a_stopped_peer_unblocks_a_full_ring():
    with stopped_peer(window=1000, capacity=4096) as (endpoint, wakeup, child):
        with pytest.raises(LinkStalled):
            while True:
                endpoint.send(1, bytes(100), 1)
        child.kill()
        assert wakeup.wait_for(lambda: not endpoint.alive, TIMEOUT)
        assert {record.kind for record in endpoint.receive()} == {Kind.FAIL, Kind.CANCEL}
