"""State of a link's streams: which are open, their sequence numbers, and their credit.

Each direction has its own stream numbers: stream 7 of one side is not stream 7 of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.transfer.records import CreditExceeded, Kind, LinkCorrupt, Record, StreamError


@dataclass(slots=True)
class _Outgoing:
    credit: int
    sequence: int = 1
    cancelled: bool = False


@dataclass(slots=True)
class _Incoming:
    sequence: int = 1
    unreleased: int = 0
    cancelled: bool = False


class OutgoingStreams:
    """The streams that this side produces."""

    def __init__(self, window: int, reserve: int = 0) -> None:
        """window: units that a stream may be ahead of its consumer. reserve: see ``without_credit``."""
        self._window, self._reserve = window, reserve
        self._streams: dict[int, _Outgoing] = {}
        self._without_credit: set[int] = set()

    def open_streams(self) -> frozenset[int]:
        """Return the streams that have not ended."""
        return frozenset(self._streams)

    def open(self, stream: int) -> int:
        """Add a new stream and return its first sequence number. Raises StreamError."""
        if not 0 <= stream < 1 << 64:
            raise StreamError(f"the number of a stream must be in 0..2**64 - 1, got {stream}")
        if stream in self._streams:
            raise StreamError(f"stream {stream} is already open")
        self._streams[stream] = _Outgoing(self._window)
        return 0

    def credit(self, stream: int) -> int:
        """Return the units that may be sent now; 0 for a stream that is not open."""
        state = self._streams.get(stream)
        return 0 if state is None else state.credit

    def without_credit(self) -> frozenset[int]:
        """Return the open streams that have at most ``reserve`` units of credit."""
        return frozenset(self._without_credit)

    def spend(self, stream: int, units: int) -> int:
        """Subtract ``units`` from the stream's credit, and return the sequence number for the record.

        Raises StreamError or CreditExceeded.
        """
        state = self._find(stream)
        if not 0 <= units <= state.credit:
            raise CreditExceeded(f"units must be in 0..{state.credit}, the credit of stream {stream}, got {units}")
        state.credit -= units
        if state.credit <= self._reserve:
            self._without_credit.add(stream)
        state.sequence += 1
        return state.sequence - 1

    def spend_each(self, streams: Sequence[int]) -> None:
        """Subtract one unit from the credit of each of ``streams``, which are different.

        Raises like ``spend``, before any stream has changed.
        """
        states = [self._find(stream) for stream in streams]
        for stream, state in zip(streams, states, strict=True):
            if not state.credit:
                raise CreditExceeded(f"stream {stream} has no credit")
        for stream, state in zip(streams, states, strict=True):
            state.credit -= 1
            state.sequence += 1
            if state.credit <= self._reserve:
                self._without_credit.add(stream)

    def add_credit(self, stream: int, units: int) -> None:
        """Add credit that the consumer returned. It may arrive after the stream has ended, and is then ignored."""
        state = self._streams.get(stream)
        if state is not None:
            state.credit = min(state.credit + units, self._window)
            if state.credit > self._reserve:
                self._without_credit.discard(stream)

    def end(self, stream: int) -> int:
        """Remove the stream, and return the sequence number of its terminal record. Raises StreamError."""
        sequence = self._find(stream).sequence
        self.forget(stream)
        return sequence

    def forget(self, stream: int) -> None:
        """Remove the stream if it is open, without a terminal record: the link is dead."""
        self._streams.pop(stream, None)
        self._without_credit.discard(stream)

    def cancel(self, stream: int) -> bool:
        """Mark an open stream as cancelled by its consumer; return False if it is not open or already cancelled."""
        state = self._streams.get(stream)
        if state is None or state.cancelled:
            return False
        state.cancelled = True
        return True

    def cancel_all(self, time: float) -> list[Record]:
        """Remove all streams; return a CANCEL record for each stream that was not cancelled before."""
        records = [
            Record(stream, Kind.CANCEL, 0, 0, time, b"")
            for stream, state in self._streams.items()
            if not state.cancelled
        ]
        self._streams.clear()
        self._without_credit.clear()
        return records

    def _find(self, stream: int) -> _Outgoing:
        try:
            return self._streams[stream]
        except KeyError:
            raise StreamError(f"stream {stream} is not open") from None


class IncomingStreams:
    """The streams that this side consumes."""

    def __init__(self) -> None:
        self._streams: dict[int, _Incoming] = {}

    def open_streams(self) -> frozenset[int]:
        """Return the streams whose terminal record has not arrived."""
        return frozenset(self._streams)

    def accept(self, record: Record) -> None:
        """Process an OPEN, DATA, END or FAIL record. Raises LinkCorrupt when its sequence number is not expected."""
        if record.kind is Kind.OPEN:
            expected = None if record.stream in self._streams else 0
        else:
            state = self._streams.get(record.stream)
            expected = None if state is None else state.sequence
        if record.sequence != expected:
            raise LinkCorrupt(
                f"{record.kind.name} number {record.sequence} of stream {record.stream}, expected {expected}"
            )
        if record.kind is Kind.OPEN:
            self._streams[record.stream] = _Incoming()
        elif record.kind is Kind.DATA:
            self._streams[record.stream].sequence += 1
            self._streams[record.stream].unreleased += record.units
        else:
            del self._streams[record.stream]

    def accept_rows(self, streams: Sequence[int]) -> None:
        """Process a ROWS record: one unit of each stream. Raises LinkCorrupt when a stream is not open."""
        for stream in streams:
            state = self._streams.get(stream)
            if state is None:
                raise LinkCorrupt(f"a row of stream {stream}, which is not open")
            state.sequence += 1
            state.unreleased += 1

    def release(self, stream: int, units: int) -> bool:
        """Release units; return whether to send CREDIT to the producer (not after the stream has ended).

        Raises StreamError when ``units`` exceeds the units received and not yet released.
        """
        state = self._streams.get(stream)
        if state is None:
            return False
        if not 0 <= units <= state.unreleased:
            raise StreamError(
                f"units must be in 0..{state.unreleased}, those not yet released of stream {stream}, got {units}"
            )
        state.unreleased -= units
        return units > 0

    def cancel(self, stream: int) -> bool:
        """Mark the stream as cancelled; return whether to send CANCEL to the producer."""
        state = self._streams.get(stream)
        if state is None or state.cancelled:
            return False
        state.cancelled = True
        return True

    def fail_all(self, time: float) -> list[Record]:
        """Remove all streams; return a FAIL record for each, because its terminal record can no longer arrive."""
        records = [Record(stream, Kind.FAIL, state.sequence, 0, time, b"") for stream, state in self._streams.items()]
        self._streams.clear()
        return records
