import socket
import threading

import pytest

from engine.transfer.wakeup import Doorbell

TIMEOUT = 10.0


@pytest.fixture
def doorbells():
    """Two doorbells and their sockets. Without a listener, rings stay readable on the socket."""
    words = [memoryview(bytearray(128)).cast("Q") for _ in range(2)]
    sockets = socket.socketpair()
    pair = Doorbell(words[0], words[1], sockets[0]), Doorbell(words[1], words[0], sockets[1])
    yield pair, sockets
    for bell in pair:
        bell.close()


def count_rings(connection):
    try:
        return len(connection.recv(4096, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0


def test_a_peer_that_did_not_ask_is_not_rung(doorbells):
    (one, _), (_, other_socket) = doorbells
    one.notify_records()
    one.notify_room()
    assert count_rings(other_socket) == 0


def test_a_request_is_answered_by_one_ring_for_its_own_reason(doorbells):
    (one, other), (_, other_socket) = doorbells
    other.request_notification()
    one.notify_room()
    assert count_rings(other_socket) == 0
    one.notify_records()
    one.notify_records()
    assert count_rings(other_socket) == 1
    other.request_room()
    one.notify_records()
    assert count_rings(other_socket) == 0
    one.notify_room()
    one.notify_room()
    assert count_rings(other_socket) == 1


def test_a_peer_that_never_listens_does_not_block(doorbells):
    (one, other), (_, other_socket) = doorbells
    other_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for _ in range(2000):
        other.request_notification()
        one.notify_records()
    assert count_rings(other_socket) > 0


def test_ringing_a_closed_peer_is_harmless(doorbells):
    (one, other), _ = doorbells
    other.request_notification()
    other.close()
    one.notify_records()


def test_a_listener_receives_rings_and_then_the_end_once(doorbells):
    (one, other), _ = doorbells
    rung = threading.Semaphore(0)
    closed = threading.Semaphore(0)
    one.listen(rung.release, closed.release)
    one.request_notification()
    other.notify_records()
    assert rung.acquire(timeout=TIMEOUT)
    other.close()
    assert closed.acquire(timeout=TIMEOUT)
    one.close()
    assert not closed.acquire(blocking=False)
