"""Rows: one unit of many streams as one record, and credit for many streams as one record."""

import pytest

from engine.transfer import CreditExceeded, Kind, StreamError, rows_of
from engine.transfer.records import LinkCorrupt, Record, pack_streams, streams_of_rows, unpack_streams

FULL = 4096
LARGEST = 2**64 - 1


def open_streams(producer, consumer, streams):
    for stream in streams:
        producer.endpoint.open(stream)
    consumer.take(len(streams))


def test_rows_arrive_as_one_record_between_the_others(link):
    producer, consumer = link()
    open_streams(producer, consumer, [1, 2, LARGEST])
    producer.endpoint.send(1, b"before", 1)
    producer.endpoint.send_rows([2, 1, LARGEST], b"aabbcc")
    producer.endpoint.end(1)
    before, rows, end = consumer.take(3)
    assert (before.kind, rows.kind, end.kind) == (Kind.DATA, Kind.ROWS, Kind.END)
    assert list(rows_of(rows)) == [(2, b"aa"), (1, b"bb"), (LARGEST, b"cc")]
    assert producer.endpoint.credits([1, 2]) == [0, 7]


def test_rows_larger_than_a_fragment_arrive_complete(link):
    producer, consumer = link(capacity=FULL, window=2)
    streams = list(range(60))
    open_streams(producer, consumer, streams)
    payload = b"".join(bytes([stream]) * 32 for stream in streams)
    producer.endpoint.send_rows(streams, payload)
    [record] = consumer.take(1)
    assert list(rows_of(record)) == [(stream, bytes([stream]) * 32) for stream in streams]


@pytest.mark.parametrize(("streams", "error"), [([2, 1], CreditExceeded), ([2, 9], StreamError)])
def test_rows_that_one_stream_cannot_take_are_not_sent(link, streams, error):
    producer, consumer = link(window=4)
    open_streams(producer, consumer, [1, 2])
    producer.endpoint.send(1, b"", 4)
    with pytest.raises(error):
        producer.endpoint.send_rows(streams, b"ab")
    assert producer.endpoint.credits([1, 2]) == [0, 4]
    producer.endpoint.send_rows([2], b"c")
    assert [record.payload[-1:] for record in consumer.take(2)] == [b"", b"c"]


def test_credit_of_rows_returns_as_one_record(link):
    producer, consumer = link(window=4)
    open_streams(producer, consumer, [1, 2, 3])
    for _ in range(3):
        producer.endpoint.send_rows([1, 2, 3], b"abc")
    consumer.take(3)
    consumer.endpoint.release_each([1, 3, 9], 2)
    producer.wait_for(producer.endpoint.pending)
    assert producer.endpoint.credits([1, 2, 3]) == [3, 1, 3]
    with pytest.raises(StreamError, match="of stream 3"):
        consumer.endpoint.release_each([2, 3], 3)
    producer.wait_for(producer.endpoint.pending)
    assert producer.endpoint.credits([1, 2, 3]) == [3, 4, 3]


def test_a_reserve_counts_as_no_credit_but_can_be_spent(link):
    producer, consumer = link(window=4, reserve=1)
    open_streams(producer, consumer, [1, 2])
    for _ in range(3):
        producer.endpoint.send_rows([1, 2], b"ab")
    assert producer.endpoint.without_credit() == {1, 2}
    producer.endpoint.send_rows([1], b"a")
    consumer.take(4)
    consumer.endpoint.release_each([1, 2], 1)
    producer.wait_for(producer.endpoint.pending)
    assert producer.endpoint.without_credit() == {1}


def test_rows_of_a_stream_that_is_not_open_break_the_link(link):
    producer, consumer = link()
    open_streams(producer, consumer, [1])
    producer.endpoint._outgoing.open(2)
    producer.endpoint.send_rows([1, 2], b"ab")
    [failed] = consumer.take(1)
    assert (failed.stream, failed.kind) == (1, Kind.FAIL)
    producer.wait_for_death()


@pytest.mark.parametrize(
    ("count", "payload"), [(0, b""), (2, pack_streams([1, 2])), (2, pack_streams([1, 2]) + b"abc")]
)
def test_rows_of_an_impossible_size_are_corrupt(count, payload):
    with pytest.raises(LinkCorrupt):
        streams_of_rows(Record(0, Kind.ROWS, 0, count, 0.0, payload))


def test_half_a_stream_number_is_corrupt():
    with pytest.raises(LinkCorrupt):
        unpack_streams(b"1234567")
