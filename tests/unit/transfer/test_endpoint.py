import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.transfer import CreditExceeded, Kind, LinkStalled, StreamError, Wakeup, pair

TIMEOUT = 10.0


def kinds(records):
    return [(record.stream, record.kind) for record in records]


def test_a_stream_from_open_to_end(link):
    producer, consumer = link()
    before = time.monotonic()
    producer.endpoint.open(7, b"request")
    producer.endpoint.send(7, b"two frames", 2)
    producer.endpoint.send(7, b"", 0)
    producer.endpoint.end(7, b"done")
    records = consumer.take(4)
    assert [record[:4] + record[5:] for record in records] == [
        (7, Kind.OPEN, 0, 0, b"request"),
        (7, Kind.DATA, 1, 2, b"two frames"),
        (7, Kind.DATA, 2, 0, b""),
        (7, Kind.END, 3, 0, b"done"),
    ]
    times = [before, *(record.time for record in records), time.monotonic()]
    assert times == sorted(times)


def test_both_sides_may_use_the_same_stream_number(link):
    one, other = link()
    one.endpoint.open(1, b"there")
    other.endpoint.open(1, b"back")
    assert other.take(1)[0].payload == b"there"
    assert one.take(1)[0].payload == b"back"
    one.endpoint.end(1)
    other.endpoint.cancel(1)
    assert kinds(other.take(1)) == [(1, Kind.END)]
    one.endpoint.cancel(1)
    assert kinds(other.take(1)) == [(1, Kind.CANCEL)]
    assert one.endpoint.open_streams == other.endpoint.open_streams == {1}


def test_open_streams_are_those_without_a_terminal(link):
    producer, consumer = link()
    for stream in (1, 2, 3):
        producer.endpoint.open(stream)
    producer.endpoint.end(1)
    producer.endpoint.fail(2, b"why")
    consumer.take(5)
    assert producer.endpoint.open_streams == consumer.endpoint.open_streams == {3}


@pytest.mark.parametrize("extra", [0, 1, 100_000])
def test_a_payload_larger_than_the_ring_arrives_complete(link, extra):
    producer, consumer = link(capacity=1 << 12)
    payload = bytes(range(256)) * 64 + bytes(extra)
    producer.endpoint.open(1, payload)
    assert consumer.take(1)[0].payload == payload
    producer.endpoint.send(1, b"small", 1)
    producer.endpoint.end(1, payload)
    assert [record.payload for record in consumer.take(2)] == [b"small", payload]


def test_threads_that_write_to_one_endpoint_do_not_interleave_records(link):
    producer, consumer = link(window=50, capacity=1 << 12)

    def produce(stream):
        producer.endpoint.open(stream)
        for number in range(50):
            producer.endpoint.send(stream, bytes([stream, number]) * 3000, 1)
        producer.endpoint.end(stream)

    threads = [threading.Thread(target=produce, args=(stream,)) for stream in range(4)]
    for thread in threads:
        thread.start()
    records = consumer.take(4 * 52)
    for stream in range(4):
        of_stream = [record for record in records if record.stream == stream]
        assert [record.sequence for record in of_stream] == list(range(52))
        assert [record.payload for record in of_stream[1:-1]] == [bytes([stream, n]) * 3000 for n in range(50)]
    for thread in threads:
        thread.join(TIMEOUT)


def test_a_slow_stream_uses_only_its_own_credit(link):
    producer, consumer = link(window=8)
    producer.endpoint.open(1)
    producer.endpoint.open(2)
    producer.endpoint.send(1, b"never released", 8)
    for number in range(100):
        producer.wait_for(lambda: producer.endpoint.credit(2) >= 8)
        producer.endpoint.send(2, bytes([number]), 8)
        consumer.wait_for(consumer.endpoint.pending)
        for record in consumer.endpoint.receive():
            if record.stream == 2:
                consumer.endpoint.release(2, record.units)
    assert producer.endpoint.credit(1) == 0
    with pytest.raises(CreditExceeded):
        producer.endpoint.send(1, b"", 1)
    consumer.endpoint.release(1, 5)
    producer.wait_for(lambda: producer.endpoint.credit(1) == 5)


def test_received_credit_is_pending_until_receive(link):
    """A loop that checks the ``credit`` of one stream must not miss the credit of another."""
    producer, consumer = link(window=8)
    for stream in (1, 2):
        producer.endpoint.open(stream)
        producer.endpoint.send(stream, b"", 8)
    consumer.take(4)
    consumer.endpoint.release(2, 8)
    producer.wait_for(lambda: producer.endpoint.credit(1) == 0 and producer.endpoint.credit(2) == 8)
    assert producer.endpoint.pending()
    assert producer.endpoint.receive() == []
    assert not producer.endpoint.pending()


def test_refused_data_changes_nothing(link):
    producer, consumer = link(window=8)
    producer.endpoint.open(1)
    with pytest.raises(CreditExceeded):
        producer.endpoint.send(1, b"too much", 9)
    with pytest.raises(StreamError):
        producer.endpoint.send(2, b"never opened", 1)
    producer.endpoint.send(1, b"just right", 8)
    producer.endpoint.end(1)
    assert [record.payload for record in consumer.take(3)] == [b"", b"just right", b""]


def test_a_stream_ends_once(link):
    producer, _ = link()
    producer.endpoint.open(1)
    producer.endpoint.end(1)
    for again in (producer.endpoint.end, producer.endpoint.fail):
        with pytest.raises(StreamError):
            again(1)


def test_cancel_is_a_request_that_the_producer_answers(link):
    producer, consumer = link()
    producer.endpoint.open(1)
    producer.endpoint.send(1, b"first", 1)
    consumer.take(2)
    consumer.endpoint.cancel(1)
    consumer.endpoint.cancel(1)
    producer.endpoint.send(1, b"on its way", 1)
    assert kinds(producer.take(1)) == [(1, Kind.CANCEL)]
    assert producer.endpoint.open_streams == {1}
    producer.endpoint.end(1, b"cancelled")
    assert [record.payload for record in consumer.take(2)] == [b"on its way", b"cancelled"]
    assert not producer.endpoint.pending()


def test_a_cancel_that_crosses_the_end_is_ignored(link):
    producer, consumer = link()
    producer.endpoint.open(1)
    consumer.take(1)
    producer.endpoint.end(1)
    consumer.endpoint.cancel(1)
    producer.endpoint.open(2)
    assert kinds(consumer.take(2)) == [(1, Kind.END), (2, Kind.OPEN)]
    consumer.endpoint.cancel(2)
    assert kinds(producer.take(1)) == [(2, Kind.CANCEL)]
    consumer.endpoint.cancel(1)
    consumer.endpoint.release(1, 1)
    assert producer.endpoint.receive() == []


def test_one_wakeup_serves_many_links_and_local_events(link):
    wakeup, event = Wakeup(), threading.Event()
    sides = [pair(window=1) for _ in range(3)]
    near_endpoints = [near.attach(wakeup) for near, _ in sides]
    far_endpoints = [far.attach(Wakeup()) for _, far in sides]

    def anything():
        return event.is_set() or any(endpoint.pending() for endpoint in near_endpoints)

    for number in (2, 0, 1):
        far_endpoints[number].open(5)
        assert wakeup.wait_for(anything, TIMEOUT)
        assert [len(endpoint.receive()) for endpoint in near_endpoints] == [int(n == number) for n in range(3)]
    assert not wakeup.wait_for(anything, 0.01)
    event.set()
    wakeup.notify()
    assert wakeup.wait_for(anything, TIMEOUT)
    for endpoint in near_endpoints + far_endpoints:
        endpoint.close()


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 2), st.integers(0, 400), st.integers(0, 4)),
            st.none(),
        ),
        max_size=60,
    )
)
def test_accepted_records_arrive_once_and_in_order(link, steps):
    """A ring of eight headers and a timeout of 0: (stream, bytes, units) sends, None receives."""
    producer, consumer = link(window=8, capacity=256, timeout=0)
    sent, received, streams = [], [], set()
    for step in steps:
        if step is None:
            received += consumer.endpoint.receive()
            continue
        stream, length, units = step
        payload = bytes(len(sent) % 256 for _ in range(length))
        try:
            if stream not in streams:
                producer.endpoint.open(stream, payload)
                streams.add(stream)
                sent.append((stream, Kind.OPEN, payload))
            elif units <= producer.endpoint.credit(stream):
                producer.endpoint.send(stream, payload, units)
                sent.append((stream, Kind.DATA, payload))
        except LinkStalled:
            pass
    for stream in streams:
        producer.endpoint.end(stream, b"end")
        sent.append((stream, Kind.END, b"end"))
    received += consumer.take(len(sent) - len(received))
    assert [(record.stream, record.kind, record.payload) for record in received] == sent
    producer.endpoint.close()
    consumer.endpoint.close()


def test_an_announcement_holds_until_a_stream_is_opened_and_wakes_nobody(link):
    producer, consumer = link()
    assert consumer.endpoint.announced == 0
    before = time.monotonic()
    producer.endpoint.announce()
    assert before <= consumer.endpoint.announced <= time.monotonic()
    assert not consumer.endpoint.pending()
    producer.endpoint.open(1)
    consumer.take(1)
    assert consumer.endpoint.announced == 0
    producer.endpoint.end(1)
    producer.endpoint.announce()
    consumer.take(1)
    assert consumer.endpoint.announced > before
    producer.endpoint.close()
    producer.endpoint.announce()
    consumer.wait_for_death()
    assert consumer.endpoint.announced == 0
