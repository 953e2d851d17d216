import socket
import threading

import pytest

from engine.transfer.wakeup import Doorbell

PATIENCE = 10.0


@pytest.fixture
def bells():
    """Two bells and the sockets behind them; whoever is not listening leaves its bytes to be seen."""
    words = [memoryview(bytearray(128)).cast("Q") for _ in range(2)]
    sockets = socket.socketpair()
    pair = Doorbell(words[0], words[1], sockets[0]), Doorbell(words[1], words[0], sockets[1])
    yield pair, sockets
    for bell in pair:
        bell.close()


def rings(connection):
    try:
        return len(connection.recv(4096, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0


def test_nobody_is_rung_who_did_not_ask(bells):
    (one, _), (_, other_socket) = bells
    one.notify_records()
    one.notify_room()
    assert rings(other_socket) == 0


def test_a_request_is_for_one_ring_and_for_its_own_cause(bells):
    (one, other), (_, other_socket) = bells
    other.request_notification()
    one.notify_room()
    assert rings(other_socket) == 0
    one.notify_records()
    one.notify_records()
    assert rings(other_socket) == 1
    other.request_room()
    one.notify_records()
    assert rings(other_socket) == 0
    one.notify_room()
    one.notify_room()
    assert rings(other_socket) == 1


def test_a_peer_that_never_listens_blocks_nobody(bells):
    (one, other), (_, other_socket) = bells
    other_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for _ in range(2000):
        other.request_notification()
        one.notify_records()
    assert rings(other_socket) > 0


def test_ringing_a_peer_that_is_gone_is_harmless(bells):
    (one, other), _ = bells
    other.request_notification()
    other.close()
    one.notify_records()


def test_listener_hears_rings_and_then_the_end_once(bells):
    (one, other), _ = bells
    heard = threading.Semaphore(0)
    gone = threading.Semaphore(0)
    one.listen(heard.release, gone.release)
    one.request_notification()
    other.notify_records()
    assert heard.acquire(timeout=PATIENCE)
    other.close()
    assert gone.acquire(timeout=PATIENCE)
    one.close()
    assert not gone.acquire(blocking=False)
