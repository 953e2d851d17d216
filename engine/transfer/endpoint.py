"""The chunk transfer adapter: streams with credit, end, cancellation and failure over one link."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from engine.transfer.channel import Channel
from engine.transfer.memory import Segment
from engine.transfer.records import Kind, LinkClosed, LinkCorrupt, LinkFull, LinkStalled, Record, StreamError
from engine.transfer.streams import IncomingStreams, OutgoingStreams
from engine.transfer.wakeup import Wakeup


class Inbox:
    """Enters what the channel brings in the books of both directions; what the side should hear waits here."""

    def __init__(self, channel: Channel, outgoing: OutgoingStreams, incoming: IncomingStreams) -> None:
        self._channel = channel
        self._outgoing = outgoing
        self._incoming = incoming
        self._records: list[Record] = []
        self._credit_came = False
        self._open_streams_failed = False

    @property
    def news(self) -> bool:
        """Whether ``take`` has something to return, or credit has come since its last call."""
        news = bool(self._records) or self._credit_came or self._channel.ready
        return news or (self._channel.gone and not self._open_streams_failed)

    def take(self) -> list[Record]:
        """Whatever has arrived, in order; once the peer is gone, the end of everything that was still open."""
        self.read()
        if self._channel.gone and not self._open_streams_failed:
            self._fail_open_streams()
        records, self._records = self._records, []
        self._credit_came = False
        return records

    def read(self) -> None:
        """Enters what has arrived by now: then the books know of all credit."""
        try:
            for record in self._channel.take():
                self._accept(record)
        except LinkCorrupt as error:
            self._channel.abort(error)

    def _accept(self, record: Record) -> None:
        if record.kind is Kind.CREDIT:
            self._outgoing.repay(record.stream, record.units)
            self._credit_came = True
        elif record.kind is Kind.CANCEL:
            # One that crossed the stream's end on the way is void.
            if self._outgoing.cancel(record.stream):
                self._records.append(record)
        else:
            self._incoming.accept(record)
            self._records.append(record)

    def _fail_open_streams(self) -> None:
        self._open_streams_failed = True
        now = time.monotonic()
        self._records += self._incoming.abandon(now) + self._outgoing.abandon(now)


class Endpoint:
    """One side of a link. Every method may be called from any thread.

    Only ``open``, ``send`` and ``send_all`` may block, and only while the ring is full: they wait until the peer has
    taken what was sent before, and raise LinkStalled after ``patience`` seconds. The others never wait for
    the peer; what they say waits for room by itself.

    With a ``backlog`` no method blocks: records that find no room in the ring are queued in this process, up to
    ``backlog`` bytes; beyond that ``open``, ``send`` and ``send_all`` raise LinkFull.

    A stream's number, below 2**64, is its producer's to choose and is used once in the life of a link.
    """

    def __init__(
        self,
        segment: Segment,
        connection: socket.socket,
        side: int,
        *,
        window: int,
        wakeup: Wakeup,
        patience: float,
        backlog: int | None = None,
    ) -> None:
        """Takes over ``segment`` and ``connection``; ``link.Side.attach`` makes endpoints.

        window: units that each stream may be ahead of its consumer; wakeup: where threads wait for this
        endpoint; patience: seconds that a full ring may stand still; backlog: bytes that may be queued behind a
        full ring, None to block instead.
        """
        self._wakeup = wakeup
        self._lock = wakeup.condition
        self._patience = patience
        self._backlog = backlog
        self._outgoing = OutgoingStreams(window)
        self._incoming = IncomingStreams()
        self._channel = Channel(segment, connection, side, wakeup)
        self._inbox = Inbox(self._channel, self._outgoing, self._incoming)

    @property
    def alive(self) -> bool:
        """Whether the link is open and the peer there."""
        return not (self._channel.gone or self._channel.closed)

    @property
    def open_streams(self) -> frozenset[int]:
        """The streams, of both directions, whose terminal record has not passed here."""
        with self._lock:
            return self._outgoing.open_streams() | self._incoming.open_streams()

    @property
    def fill(self) -> tuple[int, int]:
        """Bytes in the ring that the peer has yet to take, and how many it can hold; (0, 0) once closed."""
        with self._lock:
            return (0, 0) if self._channel.closed else self._channel.fill

    def open(self, stream: int, payload: bytes = b"") -> None:
        """Opens a stream, with a whole window of credit. Raises LinkClosed, LinkStalled or LinkFull, StreamError."""
        with self._lock:
            self._wait_for_turn(len(payload))
            self._post(stream, Kind.OPEN, self._outgoing.open(stream), 0, payload)

    def send(self, stream: int, payload: bytes, units: int) -> None:
        """Sends data that costs ``units`` of the stream's credit.

        Raises CreditExceeded for more than ``credit(stream)``, StreamError for a stream that is not open,
        LinkClosed, LinkStalled or LinkFull.
        """
        self.send_all([(stream, payload, units)])

    def send_all(self, data: Iterable[tuple[int, bytes, int]]) -> None:
        """``send`` for each (stream, payload, units), in order; the peer is woken once. Nothing to send is void.

        Raises as ``send`` does; what stands before the one that may not be sent is sent.
        """
        data = list(data)
        if not data:
            return
        records: list[Record] = []
        with self._lock:
            self._wait_for_turn(sum(len(payload) for _, payload, _ in data))
            now = time.monotonic()
            try:
                for stream, payload, units in data:
                    records.append(Record(stream, Kind.DATA, self._outgoing.spend(stream, units), units, now, payload))
            finally:
                self._channel.post(records)

    def end(self, stream: int, payload: bytes = b"") -> None:
        """Ends a stream of this side. Raises StreamError if it is not open; void on a dead link."""
        self._terminate(stream, Kind.END, payload)

    def fail(self, stream: int, payload: bytes = b"") -> None:
        """Ends a stream of this side as failed. Raises StreamError if it is not open; void on a dead link."""
        self._terminate(stream, Kind.FAIL, payload)

    def cancel(self, stream: int) -> None:
        """Asks the peer to end a stream that comes from it; data on the way still arrives.

        Void on a second call, and for a stream that is not open here: its terminal record is already taken.
        """
        with self._lock:
            if self.alive and self._incoming.cancel(stream):
                self._post(stream, Kind.CANCEL, 0, 0)

    def credit(self, stream: int) -> int:
        """Units that may be sent on a stream now: its own window, less what its consumer holds."""
        return self.credits([stream])[0]

    def credits(self, streams: Iterable[int]) -> list[int]:
        """``credit`` of each."""
        with self._lock:
            if not self.alive:
                return [0 for _ in streams]
            self._inbox.read()
            return [self._outgoing.credit(stream) for stream in streams]

    def without_credit(self) -> frozenset[int]:
        """The open streams of this side on which nothing may be sent now; all of them on a dead link."""
        with self._lock:
            if not self.alive:
                return self._outgoing.open_streams()
            self._inbox.read()
            return self._outgoing.spent()

    def release(self, stream: int, units: int) -> None:
        """Gives ``units`` of received data back to their producer. Void once the stream has ended.

        Raises StreamError for more than was received.
        """
        self.release_all([(stream, units)])

    def release_all(self, data: Iterable[tuple[int, int]]) -> None:
        """``release`` for each (stream, units); the peer is woken once.

        Raises as ``release`` does, when all the others are released.
        """
        records: list[Record] = []
        refused: StreamError | None = None
        with self._lock:
            if not self.alive:
                return
            now = time.monotonic()
            for stream, units in data:
                try:
                    if self._incoming.release(stream, units):
                        records.append(Record(stream, Kind.CREDIT, 0, units, now, b""))
                except StreamError as error:
                    refused = error
            self._channel.post(records)
        if refused is not None:
            raise refused

    def pending(self) -> bool:
        """Whether ``receive`` has something to return, or credit has come since its last call."""
        with self._lock:
            return not self._channel.closed and self._inbox.news

    def receive(self) -> list[Record]:
        """Whatever has arrived, in order.

        Once the peer is gone: what it had sent, then FAIL with an empty payload for each of its streams and
        CANCEL for each stream of this side that were still open, then nothing ever.
        """
        with self._lock:
            return [] if self._channel.closed else self._inbox.take()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the peer can read everything sent, even if this process ends now; whether it can."""
        self._wakeup.wait_for(self._is_turn, timeout)
        with self._lock:
            return self.alive and not self._channel.backlog

    def close(self) -> None:
        """Closes this side; the peer's open streams fail. Idempotent; not to be called under the lock."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_turn(self, size: int) -> None:
        """Wait until nothing is queued; with a backlog, only check that ``size`` more bytes may be queued."""
        moved = self._is_turn()
        if not moved and self._backlog is None:
            moved = self._wakeup.wait_for(self._is_turn, self._patience)
        if not self.alive:
            raise LinkClosed("the link is closed" if self._channel.closed else "the peer is gone")
        if not moved and self._backlog is not None:
            queued = self._channel.backlog
            if queued + size > self._backlog:
                raise LinkFull(f"{queued} bytes are queued behind a full ring; at most {self._backlog} may be")
        elif not moved:
            raise LinkStalled(f"the peer has not made room for {self._patience:g} s")

    def _is_turn(self) -> bool:
        if self.alive and self._channel.backlog:
            self._inbox.read()  # or two sides whose rings are both full would wait for each other
            self._channel.flush()
        return not (self.alive and self._channel.backlog)

    def _terminate(self, stream: int, kind: Kind, payload: bytes) -> None:
        with self._lock:
            if self.alive:
                self._post(stream, kind, self._outgoing.end(stream), 0, payload)
            else:
                self._outgoing.forget(stream)

    def _post(self, stream: int, kind: Kind, sequence: int, units: int, payload: bytes = b"") -> None:
        self._channel.post([Record(stream, kind, sequence, units, time.monotonic(), payload)])
