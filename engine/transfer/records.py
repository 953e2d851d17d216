"""The records that travel over a link, and the errors a link can raise."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TransferError(Exception):
    """Base of every failure of a link."""


class LinkClosed(TransferError):
    """The link is closed, or the peer has closed it or died."""


class LinkStalled(TransferError):
    """The peer lives but has taken nothing for too long. The record was not sent; nothing has changed."""


class LinkFull(TransferError):
    """More bytes than ``backlog`` would be queued behind a full ring. The record was not sent; nothing has changed."""


class LinkCorrupt(TransferError):
    """The peer wrote something that the protocol does not allow."""


class StreamError(TransferError):
    """The caller's mistake: an operation that the stream's state does not allow."""


class CreditExceeded(StreamError):
    """More units than the stream's credit. Look at ``credit()`` first."""


class Kind(IntEnum):
    """What a record says about its stream."""

    OPEN = 1
    DATA = 2
    END = 3
    FAIL = 4
    CANCEL = 5
    CREDIT = 6
    """Units given back to the producer. Internal: ``Endpoint.receive`` never returns it."""


class Record(NamedTuple):
    """One record of a stream.

    sequence: 0 for OPEN, then one more for each record of the stream's producer.
    units: what the record costs of its stream's credit (frames, for example).
    time: when the producer sent it, in seconds of ``time.monotonic``, one clock for the whole machine.
    """

    stream: int
    kind: Kind
    sequence: int
    units: int
    time: float
    payload: bytes
