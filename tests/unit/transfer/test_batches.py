"""Batches over many streams: the same result as single calls, with one lock acquisition and one doorbell ring."""

import pytest

from engine.transfer import CreditExceeded, Kind, StreamError

FULL = 4096


def count_rings(end, monkeypatch):
    """Count how often the endpoint rings its peer for published data."""
    doorbell, rings = end.endpoint._channel._doorbell, []
    published = doorbell.notify_records
    monkeypatch.setattr(doorbell, "notify_records", lambda: rings.append(1) or published())
    return rings


def open_streams(producer, consumer, streams):
    for stream in streams:
        producer.endpoint.open(stream)
    consumer.take(len(streams))


def test_a_batch_arrives_in_order_with_one_ring(link, monkeypatch):
    producer, consumer = link(window=8)
    open_streams(producer, consumer, [1, 2])
    rings = count_rings(producer, monkeypatch)
    producer.endpoint.send_all([(1, b"a", 1), (2, b"b", 3), (1, b"c", 2)])
    assert [(each.stream, each.payload, each.units) for each in consumer.take(3)] == [
        (1, b"a", 1),
        (2, b"b", 3),
        (1, b"c", 2),
    ]
    assert producer.endpoint.credits([2, 1, 9]) == [5, 5, 0]
    assert len(rings) == 1


@pytest.mark.parametrize(("refused", "error"), [((1, b"", 8), CreditExceeded), ((7, b"", 0), StreamError)])
def test_records_before_a_refused_one_are_sent(link, refused, error):
    producer, consumer = link(window=8)
    open_streams(producer, consumer, [1, 2])
    with pytest.raises(error):
        producer.endpoint.send_all([(1, b"before", 1), refused, (2, b"behind", 1)])
    producer.endpoint.end(1)
    producer.endpoint.end(2)
    assert [(each.stream, each.kind, each.payload) for each in consumer.take(3)] == [
        (1, Kind.DATA, b"before"),
        (1, Kind.END, b""),
        (2, Kind.END, b""),
    ]


def test_a_batch_larger_than_the_ring_arrives_as_space_is_freed(link):
    producer, consumer = link(capacity=FULL, window=100)
    open_streams(producer, consumer, [1])
    payloads = [bytes([number]) * 700 for number in range(40)]
    producer.endpoint.send_all([(1, payload, 1) for payload in payloads])
    assert [each.payload for each in consumer.take(40)] == payloads


def test_an_empty_batch_is_a_no_op(link):
    producer, consumer = link()
    producer.endpoint.send_all([])
    consumer.endpoint.release_all([])
    assert not consumer.endpoint.pending()


def test_credit_of_many_streams_is_returned_with_one_ring(link, monkeypatch):
    producer, consumer = link(window=4)
    open_streams(producer, consumer, [1, 2, 3])
    producer.endpoint.send_all([(stream, b"", 4) for stream in (1, 2, 3)])
    consumer.take(3)
    rings = count_rings(consumer, monkeypatch)
    consumer.endpoint.release_all([(1, 4), (2, 1), (9, 1)])
    assert len(rings) == 1
    producer.wait_for(producer.endpoint.pending)
    assert producer.endpoint.credits([1, 2, 3]) == [4, 1, 0]


def test_releasing_too_much_is_an_error_and_other_streams_are_released(link):
    producer, consumer = link(window=4)
    open_streams(producer, consumer, [1, 2, 3])
    producer.endpoint.send_all([(1, b"", 4), (2, b"", 4), (3, b"", 4)])
    consumer.take(3)
    with pytest.raises(StreamError, match="of stream 2"):
        consumer.endpoint.release_all([(1, 4), (2, 5), (3, 4)])
    producer.wait_for(producer.endpoint.pending)
    assert producer.endpoint.credits([1, 2, 3]) == [4, 0, 4]


def test_streams_without_credit_are_those_with_a_full_window(link):
    producer, consumer = link(window=4)
    open_streams(producer, consumer, [1, 2, 3])
    assert producer.endpoint.without_credit() == frozenset()
    producer.endpoint.send_all([(1, b"", 4), (2, b"", 3), (3, b"", 4)])
    assert producer.endpoint.without_credit() == {1, 3}
    consumer.take(3)
    consumer.endpoint.release(1, 1)
    producer.wait_for(producer.endpoint.pending)
    assert producer.endpoint.without_credit() == {3}
    producer.endpoint.end(3)
    assert producer.endpoint.without_credit() == frozenset()


def test_on_a_dead_link_no_stream_has_credit(link):
    producer, consumer = link()
    open_streams(producer, consumer, [1, 2])
    consumer.endpoint.close()
    producer.wait_for_death()
    assert producer.endpoint.without_credit() == {1, 2}
    assert producer.endpoint.credits([1, 2]) == [0, 0]
    consumer.endpoint.release_all([(1, 1)])
