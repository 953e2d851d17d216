"""Behavior while the peer reads nothing: no deadlock, no loss, and progress once it reads again."""

import threading

import pytest

from engine.transfer import Kind, LinkClosed, LinkFull, LinkStalled

TIMEOUT = 10.0
FULL = 4096


def fill(producer, streams):
    """Fill the ring with one-record streams, so that the next record waits for space."""
    for stream in streams:
        producer.endpoint.open(stream, bytes(FULL))


def test_a_producer_waits_until_the_consumer_reads(link):
    producer, consumer = link(capacity=FULL)
    fill(producer, [1])
    done = threading.Event()

    def produce():
        producer.endpoint.open(2)
        done.set()

    thread = threading.Thread(target=produce)
    thread.start()
    assert [record.stream for record in consumer.take(2)] == [1, 2]
    assert done.wait(TIMEOUT)
    thread.join(TIMEOUT)


def test_a_consumer_that_reads_nothing_is_a_stall_and_changes_nothing(link):
    producer, consumer = link(capacity=FULL, window=8, timeout=0.05)
    producer.endpoint.open(1)
    fill(producer, [2])
    with pytest.raises(LinkStalled):
        producer.endpoint.send(1, b"refused", 8)
    with pytest.raises(LinkStalled):
        producer.endpoint.open(3)
    assert producer.endpoint.open_streams == {1, 2}
    assert producer.endpoint.credit(1) == 8
    consumer.take(2)
    producer.endpoint.send(1, b"accepted", 8)
    assert consumer.take(1)[0].payload == b"accepted"


def test_an_empty_batch_does_not_wait_for_space(link):
    producer, _ = link(capacity=FULL, timeout=0.05)
    fill(producer, [1])
    producer.endpoint.send_all(())


def test_control_records_never_wait_and_arrive_when_there_is_space(link):
    """end, fail, cancel and release return at once; the listener thread writes them when the peer has read."""
    near, far = link(capacity=FULL, window=8, timeout=0)
    for stream in (1, 2):
        far.endpoint.open(stream)
        far.endpoint.send(stream, b"", 8)
    near.take(4)
    for stream in (11, 12):
        near.endpoint.open(stream)
    fill(near, [13])
    near.endpoint.release(1, 5)
    near.endpoint.cancel(2)
    near.endpoint.end(11, b"completion")
    near.endpoint.fail(12, b"why")
    records = far.take(6)
    assert [(record.stream, record.kind) for record in records] == [
        (11, Kind.OPEN),
        (12, Kind.OPEN),
        (13, Kind.OPEN),
        (2, Kind.CANCEL),
        (11, Kind.END),
        (12, Kind.FAIL),
    ]
    assert far.endpoint.credit(1) == 5


def test_space_freed_between_check_and_request_is_used(link, monkeypatch):
    """The space is freed at the worst moment: after the ring was found full, when the peer does not ring for it."""
    near, far = link(capacity=FULL)
    for stream in range(FULL // 32):
        near.endpoint.open(stream)
    doorbell = near.endpoint._channel._doorbell
    original_request, received = doorbell.request_room, []

    def request_too_late():
        received.extend(far.endpoint.receive())
        original_request()

    monkeypatch.setattr(doorbell, "request_room", request_too_late)
    near.endpoint.end(1)
    far.wait_for(lambda: received.extend(far.endpoint.receive()) or len(received) == FULL // 32 + 1)
    assert received[-1].kind is Kind.END


def test_two_sides_that_send_before_they_receive_do_not_deadlock(link):
    """Each waits for space that the other frees only by receiving."""
    one, other = link(capacity=FULL)
    received = []

    def exchange(end):
        fill(end, range(20))
        received.append([record.stream for record in end.take(20)])

    threads = [threading.Thread(target=exchange, args=(end,)) for end in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * TIMEOUT)
    assert received == [list(range(20))] * 2


@pytest.mark.parametrize("closer", ["own", "peer"])
def test_closing_unblocks_a_waiting_producer(link, closer):
    producer, consumer = link(capacity=FULL)
    fill(producer, [1])
    outcome = []

    def produce():
        try:
            producer.endpoint.open(2)
        except LinkClosed as error:
            outcome.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    (producer if closer == "own" else consumer).endpoint.close()
    thread.join(TIMEOUT)
    assert len(outcome) == 1


def test_flush_reports_whether_everything_was_written(link):
    producer, consumer = link(capacity=FULL)
    assert producer.endpoint.flush(0)
    fill(producer, [1])
    assert not producer.endpoint.flush(0)
    consumer.take(1)
    assert producer.endpoint.flush(TIMEOUT)
    consumer.endpoint.close()
    producer.wait_for_death()
    assert not producer.endpoint.flush(TIMEOUT)


def test_with_a_backlog_sends_do_not_block_and_queued_records_arrive_in_order(link):
    producer, consumer = link(capacity=FULL, timeout=3600, backlog=4 * FULL)
    fill(producer, range(1, 5))
    producer.endpoint.send(4, b"more", 1)
    with pytest.raises(LinkFull, match="queued behind a full ring"):
        fill(producer, [5])
    assert 5 not in producer.endpoint.open_streams
    records = consumer.take(5)
    assert [(record.stream, record.kind) for record in records] == [(n, Kind.OPEN) for n in range(1, 5)] + [
        (4, Kind.DATA)
    ]
    fill(producer, [5])
    assert [record.stream for record in consumer.take(1)] == [5]


def test_a_record_larger_than_the_backlog_is_sent_if_the_queue_is_empty(link):
    producer, consumer = link(capacity=FULL, timeout=3600, backlog=1)
    fill(producer, [1])
    with pytest.raises(LinkFull):
        producer.endpoint.open(2)
    assert [record.stream for record in consumer.take(1)] == [1]
    producer.endpoint.open(2)
    assert [record.stream for record in consumer.take(1)] == [2]
