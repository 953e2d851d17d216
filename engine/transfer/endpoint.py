"""One side of a link, with streams: credit-based flow control, end, cancellation and failure."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from engine.transfer.channel import Channel
from engine.transfer.inbox import Inbox
from engine.transfer.memory import Segment
from engine.transfer.records import (
    Kind,
    LinkClosed,
    LinkFull,
    LinkStalled,
    Record,
    StreamError,
    pack_streams,
)
from engine.transfer.streams import IncomingStreams, OutgoingStreams
from engine.transfer.wakeup import Wakeup


class Endpoint:
    """One side of a link. Thread-safe.

    ``open`` and all methods that send data block while the ring is full. They wait until the peer has read the records
    sent before, and raise LinkStalled after ``timeout`` seconds. ``flush`` waits too. No other method waits for the
    peer: records that do not fit into the ring are queued in this process.

    With a ``backlog``, ``open`` and the methods that send data do not block either. Records that do not fit into the
    ring are queued in this process, up to ``backlog`` bytes; beyond that these methods raise LinkFull.

    The producer chooses a stream's number, below 2**64. A number is used only once in the lifetime of a link.
    """

    def __init__(
        self,
        segment: Segment,
        connection: socket.socket,
        side: int,
        *,
        window: int,
        wakeup: Wakeup,
        timeout: float,
        backlog: int | None = None,
        reserve: int = 0,
    ) -> None:
        """Take ownership of ``segment`` and ``connection``. Use ``link.Side.attach`` to create endpoints.

        window: units that a stream may be ahead of its consumer; wakeup: the condition on which threads wait for this
        endpoint; timeout: timeout in seconds for a full ring; backlog: maximum number of bytes queued behind a full
        ring, None to block instead; reserve: units of credit that ``without_credit`` counts as none.
        """
        self._wakeup = wakeup
        self._lock = wakeup.lock
        self._timeout = timeout
        self._backlog = backlog
        self._outgoing = OutgoingStreams(window, reserve)
        self._incoming = IncomingStreams()
        self._channel = Channel(segment, connection, side, wakeup)
        self._inbox = Inbox(self._channel, self._outgoing, self._incoming)

    @property
    def alive(self) -> bool:
        """Whether the link is open and the peer is alive."""
        return not (self._channel.peer_gone or self._channel.closed)

    @property
    def open_streams(self) -> frozenset[int]:
        """Streams of both directions whose terminal record has not been sent or received."""
        with self._lock:
            return self._outgoing.open_streams() | self._incoming.open_streams()

    @property
    def fill(self) -> tuple[int, int]:
        """Bytes in the ring that the peer has not read, and the ring's capacity in bytes; (0, 0) once closed."""
        with self._lock:
            return (0, 0) if self._channel.closed else self._channel.fill

    @property
    def announced(self) -> float:
        """When the peer announced a stream that it has not opened yet (``time.monotonic``); 0 if it has not."""
        with self._lock:
            return self._inbox.announced if self.alive else 0.0

    def announce(self) -> None:
        """Let the peer know that a stream will be opened within milliseconds. Does not wake it."""
        with self._lock:
            if self.alive:
                self._channel.announce()

    def open(self, stream: int, payload: bytes = b"") -> None:
        """Open a stream with a full window of credit. Raises LinkClosed, LinkStalled, LinkFull or StreamError."""
        with self._lock:
            self._wait_for_room(len(payload))
            self._send_one(stream, Kind.OPEN, self._outgoing.open(stream), 0, payload)

    def send(self, stream: int, payload: bytes, units: int) -> None:
        """Send data that costs ``units`` of the stream's credit.

        Raises CreditExceeded when ``units`` exceeds ``credit(stream)``, StreamError when the stream is not open, and
        LinkClosed, LinkStalled or LinkFull.
        """
        with self._lock:
            self._wait_for_room(len(payload))
            self._send_one(stream, Kind.DATA, self._outgoing.spend(stream, units), units, payload)

    def send_all(self, data: Iterable[tuple[int, bytes, int]]) -> None:
        """Send each (stream, payload, units) in order, and wake the peer once. No-op if ``data`` is empty.

        Raises like ``send``. When one item raises CreditExceeded or StreamError, the items before it are sent.
        """
        data = list(data)
        if not data:
            return
        records: list[Record] = []
        with self._lock:
            self._wait_for_room(sum(len(payload) for _, payload, _ in data))
            now = time.monotonic()
            try:
                for stream, payload, units in data:
                    records.append(Record(stream, Kind.DATA, self._outgoing.spend(stream, units), units, now, payload))
            finally:
                self._channel.send(records)

    def send_rows(self, streams: Sequence[int], rows: bytes) -> None:
        """Send one unit to each of ``streams``, which are different, as one record.

        rows: the payloads of all streams in their order, of the same size. Raises like ``send``; then nothing is sent.
        """
        payload = pack_streams(streams) + rows
        with self._lock:
            self._wait_for_room(len(payload))
            self._outgoing.spend_each(streams)
            self._send_one(0, Kind.ROWS, 0, len(streams), payload)

    def end(self, stream: int, payload: bytes = b"") -> None:
        """End a stream of this side. Raises StreamError when it is not open; no-op on a dead link."""
        self._terminate(stream, Kind.END, payload)

    def fail(self, stream: int, payload: bytes = b"") -> None:
        """End a stream of this side as failed. Raises StreamError when it is not open; no-op on a dead link."""
        self._terminate(stream, Kind.FAIL, payload)

    def cancel(self, stream: int) -> None:
        """Ask the peer to end one of its streams. Data in flight still arrives.

        No-op on a second call, and for a stream that is not open here because its terminal record was received.
        """
        with self._lock:
            if self.alive and self._incoming.cancel(stream):
                self._send_one(stream, Kind.CANCEL, 0, 0)

    def credit(self, stream: int) -> int:
        """Return the units that may be sent on a stream now: its window minus the units not yet released."""
        with self._lock:
            if not self.alive:
                return 0
            self._inbox.process()
            return self._outgoing.credit(stream)

    def credits(self, streams: Iterable[int]) -> list[int]:
        """Return ``credit`` of each stream."""
        with self._lock:
            if not self.alive:
                return [0 for _ in streams]
            self._inbox.process()
            return [self._outgoing.credit(stream) for stream in streams]

    def without_credit(self) -> frozenset[int]:
        """Return the open streams of this side that have no credit now, except ``reserve``.

        On a dead link, return all of its open streams.
        """
        with self._lock:
            if not self.alive:
                return self._outgoing.open_streams()
            self._inbox.process()
            return self._outgoing.without_credit()

    def release(self, stream: int, units: int) -> None:
        """Return credit for ``units`` of received data to the producer. No-op once the stream has ended.

        Raises StreamError when ``units`` exceeds what was received and not yet released.
        """
        with self._lock:
            if self.alive and self._incoming.release(stream, units):
                self._send_one(stream, Kind.CREDIT, 0, units)

    def release_all(self, data: Iterable[tuple[int, int]]) -> None:
        """Call ``release`` for each (stream, units), and wake the peer once.

        Raises like ``release``, after it has released all the other items.
        """
        with self._lock:
            if not self.alive:
                return
            released, failure = self._release(data)
            now = time.monotonic()
            self._channel.send([Record(stream, Kind.CREDIT, 0, units, now, b"") for stream, units in released])
        if failure is not None:
            raise failure

    def release_each(self, streams: Iterable[int], units: int) -> None:
        """Release the same ``units`` of each of ``streams``, as one record. Raises like ``release_all``."""
        with self._lock:
            if not self.alive:
                return
            released, failure = self._release((stream, units) for stream in streams)
            if released:
                self._send_one(0, Kind.CREDITS, 0, units, pack_streams([stream for stream, _ in released]))
        if failure is not None:
            raise failure

    def pending(self) -> bool:
        """Return whether ``receive`` has something to return, or credit has arrived since its last call."""
        with self._lock:
            return not self._channel.closed and self._inbox.ready

    def receive(self) -> list[Record]:
        """Return all records that have arrived, in order.

        Once the peer is gone, return the records it had sent, then FAIL with an empty payload for each of its open
        streams and CANCEL for each open stream of this side. After that, always return an empty list.
        """
        with self._lock:
            return [] if self._channel.closed else self._inbox.receive()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all sent records are in the ring, and return whether they are.

        The peer can then read them even if this process exits.
        """
        self._wakeup.wait_for(self._flush_outbox, timeout)
        with self._lock:
            return self.alive and not self._channel.backlog

    def hang_up(self) -> None:
        """End the link for both sides, without freeing its memory."""
        with self._lock:
            self._channel.hang_up()

    def close(self) -> None:
        """Close this side; open streams fail at the peer. Idempotent. Must not be called under the lock."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _release(self, data: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, int]], StreamError | None]:
        """Release each (stream, units). Return those to send credit for, and the last error."""
        released: list[tuple[int, int]] = []
        failure: StreamError | None = None
        for stream, units in data:
            try:
                if self._incoming.release(stream, units):
                    released.append((stream, units))
            except StreamError as error:
                failure = error
        return released, failure

    def _wait_for_room(self, size: int) -> None:
        """Wait until nothing is queued; with a backlog, only check that ``size`` more bytes may be queued."""
        if self.alive and not self._channel.backlog:
            return
        flushed = self._flush_outbox()
        if not flushed and self._backlog is None:
            flushed = self._wakeup.wait_for(self._flush_outbox, self._timeout)
        if not self.alive:
            raise LinkClosed(
                "this side closed the link" if self._channel.closed else "the peer closed the link or died"
            )
        if not flushed and self._backlog is not None:
            queued = self._channel.backlog
            if queued + size > self._backlog:
                raise LinkFull(
                    f"{queued} bytes are queued behind a full ring: {size} more exceed the backlog of {self._backlog}"
                )
        elif not flushed:
            raise LinkStalled(f"the peer has not read the full ring for {self._timeout:g} s")

    def _flush_outbox(self) -> bool:
        """Write queued records as far as there is room; return whether none remain or the link is dead."""
        if self.alive and self._channel.backlog:
            self._inbox.process()  # otherwise two sides with full rings would deadlock
            self._channel.flush()
        return not (self.alive and self._channel.backlog)

    def _terminate(self, stream: int, kind: Kind, payload: bytes) -> None:
        with self._lock:
            if self.alive:
                self._send_one(stream, kind, self._outgoing.end(stream), 0, payload)
            else:
                self._outgoing.forget(stream)

    def _send_one(self, stream: int, kind: Kind, sequence: int, units: int, payload: bytes = b"") -> None:
        self._channel.send([Record(stream, kind, sequence, units, time.monotonic(), payload)])
