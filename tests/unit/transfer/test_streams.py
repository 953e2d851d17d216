import pytest

from engine.transfer.records import CreditExceeded, Kind, LinkCorrupt, Record, StreamError
from engine.transfer.streams import IncomingStreams, OutgoingStreams


def record(kind, sequence=0, units=0, stream=1):
    return Record(stream, kind, sequence, units, 0.0, b"")


def test_records_of_a_producer_are_numbered_from_open_to_end():
    streams = OutgoingStreams(window=10)
    assert [streams.open(1), streams.spend(1, 0), streams.spend(1, 2), streams.end(1)] == [0, 1, 2, 3]
    assert streams.open_streams() == frozenset()


def test_each_stream_has_its_own_credit():
    streams = OutgoingStreams(window=10)
    streams.open(1)
    streams.open(2)
    streams.spend(1, 10)
    assert (streams.credit(1), streams.credit(2)) == (0, 10)
    with pytest.raises(CreditExceeded, match=r"units must be in 0..0, the credit of stream 1, got 1"):
        streams.spend(1, 1)
    streams.add_credit(1, 4)
    assert (streams.credit(1), streams.credit(2)) == (4, 10)


def test_credit_for_an_ended_stream_is_ignored():
    streams = OutgoingStreams(window=10)
    streams.open(1)
    streams.end(1)
    streams.add_credit(1, 4)
    assert streams.credit(1) == 0


def test_credit_never_exceeds_the_window():
    streams = OutgoingStreams(window=10)
    streams.open(1)
    streams.add_credit(1, 4)
    assert streams.credit(1) == 10


@pytest.mark.parametrize(
    "mistake",
    [
        lambda streams: streams.open(1),
        lambda streams: streams.open(-1),
        lambda streams: streams.open(2**64),
        lambda streams: streams.spend(2, 1),
        lambda streams: streams.spend(1, -1),
        lambda streams: streams.end(2),
    ],
)
def test_misuse_by_a_producer_is_an_error(mistake):
    streams = OutgoingStreams(window=10)
    streams.open(1)
    with pytest.raises(StreamError):
        mistake(streams)


def test_a_producer_receives_a_cancellation_once():
    streams = OutgoingStreams(window=10)
    streams.open(1)
    streams.open(2)
    assert [streams.cancel(1), streams.cancel(1), streams.cancel(9)] == [True, False, False]
    assert [(r.stream, r.kind) for r in streams.cancel_all(0.0)] == [(2, Kind.CANCEL)]
    assert streams.cancel_all(0.0) == []


@pytest.mark.parametrize(
    "invalid",
    [
        record(Kind.DATA, 1, stream=2),
        record(Kind.END, 1, stream=2),
        record(Kind.OPEN, 0),
        record(Kind.OPEN, 1, stream=2),
        record(Kind.DATA, 2),
        record(Kind.DATA, 0),
        record(Kind.FAIL, 2),
    ],
    ids=lambda r: f"{r.kind.name} {r.sequence} of {r.stream}",
)
def test_a_consumer_refuses_records_out_of_order(invalid):
    streams = IncomingStreams()
    streams.accept(record(Kind.OPEN))
    with pytest.raises(LinkCorrupt):
        streams.accept(invalid)


def test_a_consumer_can_release_only_what_it_received():
    streams = IncomingStreams()
    streams.accept(record(Kind.OPEN))
    streams.accept(record(Kind.DATA, 1, units=5))
    assert streams.release(1, 3)
    with pytest.raises(StreamError, match=r"units must be in 0..2, those not yet released of stream 1, got 3"):
        streams.release(1, 3)
    assert streams.release(1, 2)
    assert not streams.release(1, 0)


def test_after_the_end_release_and_cancel_are_ignored():
    streams = IncomingStreams()
    streams.accept(record(Kind.OPEN))
    streams.accept(record(Kind.DATA, 1, units=5))
    streams.accept(record(Kind.END, 2))
    assert not streams.release(1, 5)
    assert not streams.cancel(1)
    assert streams.open_streams() == frozenset()


def test_streams_lost_with_the_producer_fail_once():
    streams = IncomingStreams()
    for stream in (1, 2, 3):
        streams.accept(record(Kind.OPEN, stream=stream))
    streams.accept(record(Kind.END, 1, stream=2))
    streams.cancel(3)
    assert [(r.stream, r.kind) for r in streams.fail_all(0.0)] == [(1, Kind.FAIL), (3, Kind.FAIL)]
    assert streams.fail_all(0.0) == []
