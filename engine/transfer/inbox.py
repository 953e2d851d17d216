"""Receives the records of a link, and keeps the state of its streams up to date."""

from __future__ import annotations

import time

from engine.transfer.channel import Channel
from engine.transfer.records import Kind, LinkCorrupt, Record, streams_of_rows, unpack_streams
from engine.transfer.streams import IncomingStreams, OutgoingStreams


class Inbox:
    """Receives records from the channel, updates the stream state of both directions, and queues records."""

    def __init__(self, channel: Channel, outgoing: OutgoingStreams, incoming: IncomingStreams) -> None:
        self._channel = channel
        self._outgoing = outgoing
        self._incoming = incoming
        self._records: list[Record] = []
        self._credit_received = False
        self._open_streams_failed = False
        self._latest_open = 0.0
        """When the peer sent the latest OPEN record that was received."""

    @property
    def announced(self) -> float:
        """When the peer announced a stream that it has not opened yet (``time.monotonic``); 0 if it has not."""
        announcement = self._channel.announcement
        return announcement if announcement > self._latest_open else 0.0

    @property
    def ready(self) -> bool:
        """Whether ``receive`` has something to return, or credit has arrived since its last call."""
        received = bool(self._records) or self._credit_received or self._channel.ready
        return received or (self._channel.peer_gone and not self._open_streams_failed)

    def receive(self) -> list[Record]:
        """Return all records that have arrived, in order; once the peer is gone, also the end of every open stream."""
        self.process()
        if self._channel.peer_gone and not self._open_streams_failed:
            self._fail_open_streams()
        records, self._records = self._records, []
        self._credit_received = False
        return records

    def process(self) -> None:
        """Process all records that have arrived, so that the credit is up to date."""
        try:
            for record in self._channel.receive():
                self._accept(record)
        except LinkCorrupt as error:
            self._channel.abort(error)

    def _accept(self, record: Record) -> None:
        kind = record.kind
        if kind is Kind.CREDIT:
            self._outgoing.add_credit(record.stream, record.units)
            self._credit_received = True
        elif kind is Kind.CREDITS:
            for stream in unpack_streams(record.payload):
                self._outgoing.add_credit(stream, record.units)
            self._credit_received = True
        elif kind is Kind.ROWS:
            self._incoming.accept_rows(streams_of_rows(record))
            self._records.append(record)
        elif kind is Kind.CANCEL:
            # Ignore a CANCEL that crossed the stream's end in flight.
            if self._outgoing.cancel(record.stream):
                self._records.append(record)
        else:
            if kind is Kind.OPEN:
                self._latest_open = record.time
            self._incoming.accept(record)
            self._records.append(record)

    def _fail_open_streams(self) -> None:
        self._open_streams_failed = True
        now = time.monotonic()
        self._records += self._incoming.fail_all(now) + self._outgoing.cancel_all(now)
