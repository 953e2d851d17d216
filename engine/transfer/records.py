"""Records sent over a link, and the errors that a link raises."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


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
