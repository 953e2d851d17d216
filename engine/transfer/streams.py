"""The books of a link's streams: which are open, at which record they are, and who owes whom credit.

The two directions number their streams apart: stream 7 of one side is not stream 7 of the other.
"""

from __future__ import annotations

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

    def __init__(self, window: int) -> None:
        """window: units that a stream may be ahead of its consumer."""
        self._window = window
        self._streams: dict[int, _Outgoing] = {}
        self._spent: set[int] = set()

    def open_streams(self) -> frozenset[int]:
        """The streams that have not been ended."""
        return frozenset(self._streams)

    def open(self, stream: int) -> int:
        """Enters a new stream; returns its first sequence number."""
        if not 0 <= stream < 1 << 64:
            raise StreamError(f"{stream} cannot be the number of a stream")
        if stream in self._streams:
            raise StreamError(f"stream {stream} is already open")
        self._streams[stream] = _Outgoing(self._window)
        return 0

    def credit(self, stream: int) -> int:
        """Units that may be sent now; 0 for a stream that is not open."""
        state = self._streams.get(stream)
        return 0 if state is None else state.credit

    def spent(self) -> frozenset[int]:
        """The open streams that have no credit."""
        return frozenset(self._spent)

    def spend(self, stream: int, units: int) -> int:
        """Takes ``units`` from the stream's credit; returns the sequence number of the record they pay."""
        state = self._find(stream)
        if not 0 <= units <= state.credit:
            raise CreditExceeded(f"{units} units on stream {stream}, which has credit for {state.credit}")
        state.credit -= units
        if not state.credit:
            self._spent.add(stream)
        state.sequence += 1
        return state.sequence - 1

    def repay(self, stream: int, units: int) -> None:
        """Enters credit that the consumer gave back; it may come after the end."""
        state = self._streams.get(stream)
        if state is not None:
            state.credit = min(state.credit + units, self._window)
            if state.credit:
                self._spent.discard(stream)

    def end(self, stream: int) -> int:
        """Strikes the stream out; returns the sequence number of its terminal record."""
        sequence = self._find(stream).sequence
        self.forget(stream)
        return sequence

    def forget(self, stream: int) -> None:
        """Strikes the stream out if it is there: nobody is left to be told of its end."""
        self._streams.pop(stream, None)
        self._spent.discard(stream)

    def cancel(self, stream: int) -> bool:
        """Whether this is the first that is heard of a consumer's wish and the stream is still open."""
        state = self._streams.get(stream)
        if state is None or state.cancelled:
            return False
        state.cancelled = True
        return True

    def abandon(self, time: float) -> list[Record]:
        """Strikes everything out; CANCEL for each stream whose producer has not been told to stop."""
        records = [
            Record(stream, Kind.CANCEL, 0, 0, time, b"")
            for stream, state in self._streams.items()
            if not state.cancelled
        ]
        self._streams.clear()
        self._spent.clear()
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
        """The streams whose terminal record has not come."""
        return frozenset(self._streams)

    def accept(self, record: Record) -> None:
        """Enters an OPEN, DATA, END or FAIL; raises LinkCorrupt for one that cannot come now."""
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

    def release(self, stream: int, units: int) -> bool:
        """Enters units as taken; whether the producer should be told, which it need not after the end."""
        state = self._streams.get(stream)
        if state is None:
            return False
        if not 0 <= units <= state.unreleased:
            raise StreamError(f"{units} units of stream {stream} released, {state.unreleased} are held")
        state.unreleased -= units
        return units > 0

    def cancel(self, stream: int) -> bool:
        """Enters the wish that the stream end; whether the producer should be told."""
        state = self._streams.get(stream)
        if state is None or state.cancelled:
            return False
        state.cancelled = True
        return True

    def abandon(self, time: float) -> list[Record]:
        """Strikes everything out; FAIL for each stream whose terminal record can no longer come."""
        records = [Record(stream, Kind.FAIL, state.sequence, 0, time, b"") for stream, state in self._streams.items()]
        self._streams.clear()
        return records
