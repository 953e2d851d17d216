"""What arrives at one side of a link, and what is left to say once the peer is gone.

Every method must be called under the lock of the channel's ``Wakeup``.
"""

from __future__ import annotations

import time

from engine.transfer.channel import Channel
from engine.transfer.errors import LinkCorrupt
from engine.transfer.record import Kind, Record
from engine.transfer.streams import IncomingStreams, OutgoingStreams


class Inbox:
    """Enters what the channel brings in the books of both directions; what the side should hear waits here."""

    def __init__(self, channel: Channel, outgoing: OutgoingStreams, incoming: IncomingStreams) -> None:
        self._channel = channel
        self._outgoing = outgoing
        self._incoming = incoming
        self._records: list[Record] = []
        self._credit_came = False
        self._mourned = False

    @property
    def news(self) -> bool:
        """Whether ``take`` has something to return, or credit has come since its last call."""
        news = bool(self._records) or self._credit_came or self._channel.ready
        return news or (self._channel.gone and not self._mourned)

    def take(self) -> list[Record]:
        """Whatever has arrived, in order; once the peer is gone, the end of everything that was still open."""
        self.read()
        if self._channel.gone and not self._mourned:
            self._mourn()
        records, self._records = self._records, []
        self._credit_came = False
        return records

    def read(self) -> None:
        """Enters what has arrived by now: then the books know of all credit."""
        try:
            for record in self._channel.take():
                self._accept(record)
        except LinkCorrupt as error:
            self._channel.condemn(error)

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

    def _mourn(self) -> None:
        self._mourned = True
        now = time.monotonic()
        self._records += self._incoming.abandon(now) + self._outgoing.abandon(now)
