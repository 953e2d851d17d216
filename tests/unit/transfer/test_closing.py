import logging
import os
import threading

import pytest

from engine.transfer import Kind, LinkClosed, Wakeup, pair

TIMEOUT = 10.0


def test_closing_by_the_peer_fails_exactly_the_open_streams(link):
    near, far = link()
    for stream in (1, 2, 3):
        far.endpoint.open(stream)
    far.endpoint.end(2)
    for stream in (11, 12, 13, 14):
        near.endpoint.open(stream)
    near.endpoint.end(12)
    far.take(5)
    far.endpoint.cancel(13)
    near.take(5)
    far.endpoint.cancel(14)
    far.endpoint.send(3, b"last words", 1)
    far.endpoint.close()
    near.wait_for_death()
    assert [(record.stream, record.kind, record.payload) for record in near.endpoint.receive()] == [
        (14, Kind.CANCEL, b""),
        (3, Kind.DATA, b"last words"),
        (1, Kind.FAIL, b""),
        (3, Kind.FAIL, b""),
        (11, Kind.CANCEL, b""),
    ]
    assert near.endpoint.open_streams == frozenset()
    assert not near.endpoint.pending()
    assert near.endpoint.receive() == []


def test_death_is_pending_once(link):
    near, far = link()
    far.endpoint.close()
    near.wait_for(near.endpoint.pending)
    assert near.endpoint.receive() == []
    assert not near.endpoint.pending()


def test_a_dead_link_refuses_data_and_ignores_control_records(link):
    near, far = link()
    near.endpoint.open(1)
    near.endpoint.open(2)
    far.endpoint.open(3)
    near.take(1)
    far.endpoint.close()
    near.wait_for_death()
    with pytest.raises(LinkClosed):
        near.endpoint.open(4)
    with pytest.raises(LinkClosed):
        near.endpoint.send(1, b"", 1)
    assert near.endpoint.credit(1) == 0
    near.endpoint.end(1)
    near.endpoint.end(1)
    near.endpoint.release(3, 1)
    near.endpoint.cancel(3)
    assert [(record.stream, record.kind) for record in near.endpoint.receive()] == [
        (3, Kind.FAIL),
        (2, Kind.CANCEL),
    ]


def test_an_incomplete_payload_is_not_delivered(link):
    near, far = link(capacity=4096)
    near.endpoint.open(1, bytes(10_000))
    near.endpoint.close()
    far.wait_for_death()
    assert far.endpoint.receive() == []


def test_a_peer_that_violates_the_protocol_is_disconnected(link, caplog):
    """Corrupt shared memory fails the streams; it neither crashes nor delivers corrupt data."""
    near, far = link()
    far.endpoint.open(1)
    near.take(1)
    far.endpoint.send(1, b"damaged", 1)
    near.endpoint._channel._segment.data(1)[32 + 12] = 200
    with caplog.at_level(logging.ERROR):
        assert [(record.stream, record.kind) for record in near.endpoint.receive()] == [(1, Kind.FAIL)]
    assert "got 200" in caplog.text
    assert not near.endpoint.alive
    far.wait_for_death()


def test_a_closed_endpoint_does_nothing(link):
    near, far = link()
    far.endpoint.open(1)
    near.endpoint.open(2)
    near.endpoint.close()
    near.endpoint.close()
    assert not near.endpoint.alive
    assert near.endpoint.receive() == []
    assert not near.endpoint.pending()
    assert near.endpoint.credit(2) == 0
    near.endpoint.end(2)
    near.endpoint.cancel(1)
    near.endpoint.release(1, 1)
    with pytest.raises(LinkClosed):
        near.endpoint.send(2, b"", 0)


def test_closing_wakes_all_waiters(link):
    near, _ = link()
    results = []
    waiter = threading.Thread(
        target=lambda: results.append(near.wakeup.wait_for(lambda: not near.endpoint.alive, TIMEOUT))
    )
    waiter.start()
    near.endpoint.close()
    waiter.join(TIMEOUT)
    assert results == [True]


def open_descriptors():
    """Open file descriptors of this process, except the one used to list them."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_closing_releases_all_resources():
    before = open_descriptors(), threading.active_count(), set(os.listdir("/dev/shm"))
    for _ in range(20):
        near, far = (side.attach(Wakeup()) for side in pair(window=8))
        near.open(1, bytes(1 << 19))
        far.receive()
        near.send(1, bytes(1000), 1)
        far.receive()
        near.close()
        far.close()
    unattached = pair(window=8)
    for side in unattached:
        side.close()
    assert (open_descriptors(), threading.active_count(), set(os.listdir("/dev/shm"))) == before
    with open("/proc/self/maps") as maps:
        assert "sonant-link" not in maps.read()
