"""Records sent over a link, and the errors that a link raises."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

_NUMBER_BYTES = 8


class TransferError(Exception):
    """Base class of all link errors."""


class LinkClosed(TransferError):
    """This side or the peer closed the link, or the peer died."""


class LinkStalled(TransferError):
    """The peer is alive but has not made room before the timeout. The record was not sent; no state has changed."""


class LinkFull(TransferError):
    """More than ``backlog`` bytes would be queued behind a full ring. The record was not sent; no state has changed."""


class LinkCorrupt(TransferError):
    """The peer violated the protocol."""


class StreamError(TransferError):
    """The caller's error: the stream's state does not allow the operation."""


class CreditExceeded(StreamError):
    """The units exceed the stream's credit. Check ``credit()`` first."""


class Kind(IntEnum):
    """The kind of a record."""

    OPEN = 1
    DATA = 2
    END = 3
    FAIL = 4
    CANCEL = 5
    CREDIT = 6
    """Credit returned to the producer. Internal: ``Endpoint.receive`` never returns it."""
    ROWS = 7
    """Data of many streams, see ``rows_of``."""
    CREDITS = 8
    """``units`` of credit for each of many streams, whose numbers are the payload. Internal like CREDIT."""


class Record(NamedTuple):
    """One record of a stream.

    sequence: 0 for OPEN, then incremented by each record from the stream's producer.
    units: the credit that the record costs (frames, for example).
    time: send time in seconds of ``time.monotonic``, which is one clock for all processes of the machine.
    """

    stream: int
    kind: Kind
    sequence: int
    units: int
    time: float
    payload: bytes


def pack_streams(streams: Sequence[int]) -> bytes:
    """Return stream numbers as the payload of a record, or its beginning."""
    return array("Q", streams).tobytes()


def unpack_streams(payload: bytes) -> Sequence[int]:
    """Return the stream numbers in a payload. Raises LinkCorrupt."""
    if len(payload) % _NUMBER_BYTES:
        raise LinkCorrupt(f"stream numbers must have {_NUMBER_BYTES} bytes each, got {len(payload)} bytes")
    return array("Q", payload)


def rows_of(record: Record) -> Iterator[tuple[int, bytes]]:
    """Return the (stream, row) pairs of a ROWS record. Its ``units`` is the number of rows, one unit of each stream.

    The payload has the numbers of the streams, then the rows, which have the same size.
    """
    start = record.units * _NUMBER_BYTES
    size = (len(record.payload) - start) // record.units
    rows = (record.payload[at : at + size] for at in range(start, len(record.payload), size))
    return zip(streams_of_rows(record), rows, strict=True)


def streams_of_rows(record: Record) -> Sequence[int]:
    """Return the streams of a ROWS record. Raises LinkCorrupt when its size does not fit its number of rows."""
    count, rows = record.units, len(record.payload) - record.units * _NUMBER_BYTES
    if not count or rows <= 0 or rows % count:
        raise LinkCorrupt(f"{len(record.payload)} bytes cannot contain {count} rows of the same size")
    return unpack_streams(record.payload[: record.units * _NUMBER_BYTES])
