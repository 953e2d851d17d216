"""What travels over a link, as its users see it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


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
