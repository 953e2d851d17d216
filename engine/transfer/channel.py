"""One side of a link below the stream level: sends and receives complete records, and detects that the peer has ended.

All methods except ``close`` must be called under the lock of the channel's ``Wakeup``.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from engine.transfer.memory import Segment
from engine.transfer.records import Kind, LinkCorrupt, Record
from engine.transfer.ring import Entry, RingReader, RingWriter, largest_payload, record_size
from engine.transfer.wakeup import Doorbell, Wakeup

_MORE: Final = 1
"""Flag of a fragment that is followed by more fragments of the same record."""
_SHARE: Final = 4
"""A fragment takes at most 1/4 of the ring, so that writer and reader can work at the same time."""
_KINDS: Final = {int(kind): kind for kind in Kind}

_log = logging.getLogger(__name__)


class Channel:
    """Sends and receives complete records in order. Never blocks.

    Records that do not fit into the ring are queued in this process, and written when the peer has made room.
    """

    def __init__(self, segment: Segment, connection: socket.socket, side: int, wakeup: Wakeup) -> None:
        """Take ownership of ``segment`` and ``connection``. side: 0 or 1."""
        self.peer_gone = False
        """Whether the peer has closed the link or died."""
        self.closed = False
        self._segment = segment
        self._wakeup = wakeup
        outbound = segment.data(side)
        self._writer = RingWriter(segment.positions(side), outbound)
        self._reader = RingReader(segment.positions(1 - side), segment.data(1 - side))
        self._doorbell = Doorbell(segment.signals(side), segment.signals(1 - side), connection)
        self._largest_fragment = largest_payload(len(outbound) // _SHARE)
        self._outbox: deque[Entry] = deque()
        self._outbox_bytes = 0
        self._unpublished = False
        self._fragments: list[bytes] = []
        self._corrupt = False
        wakeup.attach(self._doorbell)
        wakeup.listen(self._doorbell, self._on_ring, self._on_hang_up)

    @property
    def backlog(self) -> int:
        """Bytes queued behind a full ring, including headers; 0 when nothing is queued."""
        return self._outbox_bytes

    @property
    def ready(self) -> bool:
        """Whether ``receive`` has data to read."""
        return self._reader.ready and not self._corrupt

    @property
    def fill(self) -> tuple[int, int]:
        """Bytes used in the outbound ring, and its capacity in bytes."""
        return self._writer.used, self._writer.capacity

    @property
    def announcement(self) -> float:
        """When the peer last called ``announce``, in seconds (``time.monotonic``); 0 if never."""
        return self._reader.announcement / 1e9

    def announce(self) -> None:
        """Let the peer know that a record will follow within milliseconds, without waking it."""
        self._writer.announce(time.monotonic_ns())

    def send(self, records: Iterable[Record]) -> None:
        """Send records after everything sent before; write and notify at once as far as the ring has room."""
        largest = self._largest_fragment
        try:
            for stream, kind, sequence, units, sent, payload in records:
                if len(payload) <= largest:
                    self._put(Entry(stream, sequence, kind, 0, units, sent, payload))
                    continue
                for start in range(0, len(payload), largest):
                    end = start + largest
                    flags = _MORE if end < len(payload) else 0
                    self._put(Entry(stream, sequence, kind, flags, units, sent, payload[start:end]))
        except LinkCorrupt as error:
            self.abort(error)
        self.flush()

    def flush(self) -> None:
        """Write queued records as far as there is room; if some remain, ask the peer to ring when it makes room."""
        try:
            self._write_queued()
            if self._outbox and not self.peer_gone:
                self._doorbell.request_room()
                self._write_queued()  # room made after request_room rings and flushes again
        except LinkCorrupt as error:
            self.abort(error)

    def receive(self) -> list[Record]:
        """Return every complete record that has arrived."""
        if not self.ready:
            return []
        try:
            entries = self._reader.read()
            self._doorbell.notify_room()
            return [record for entry in entries if (record := self._assemble(entry)) is not None]
        except LinkCorrupt as error:
            self.abort(error)
            return []

    def abort(self, error: LinkCorrupt) -> None:
        """Abort the link because the peer broke the protocol: stop reading, and hang up for both sides."""
        _log.error("link aborted, because the peer broke the protocol: %s", error)
        self._corrupt = True
        self.hang_up()

    def hang_up(self) -> None:
        """End the link for both sides."""
        self.peer_gone = True
        self._doorbell.hang_up()

    def close(self) -> None:
        """Hang up and free all resources. Idempotent. Must not be called under the lock."""
        with self._wakeup.condition:
            if self.closed:
                return
            self.closed = True
            self._wakeup.detach(self._doorbell)
            self._wakeup.notify()
        self._doorbell.close()
        self._segment.close()

    def _put(self, entry: Entry) -> None:
        """Write an entry after all others; queue it if there is no room. The caller must ``flush``."""
        if not self._outbox and not self.peer_gone and self._writer.put(entry):
            self._unpublished = True
        else:
            self._outbox.append(entry)
            self._outbox_bytes += record_size(len(entry.payload))

    def _write_queued(self) -> None:
        """Write queued records as far as there is room; publish what was written, and notify the peer once."""
        while self._outbox and not self.peer_gone and self._writer.put(self._outbox[0]):
            self._outbox_bytes -= record_size(len(self._outbox.popleft().payload))
            self._unpublished = True
        if self._unpublished:
            self._unpublished = False
            self._writer.publish()
            self._doorbell.notify_records()

    def _assemble(self, entry: Entry) -> Record | None:
        stream, sequence, number, flags, units, sent, payload = entry
        kind = _KINDS.get(number)
        if kind is None:
            raise LinkCorrupt(f"the kind of a record must be one of {sorted(_KINDS)}, got {number}")
        if flags & _MORE:
            self._fragments.append(payload)
            return None
        if self._fragments:
            payload = b"".join((*self._fragments, payload))
            self._fragments.clear()
        return Record(stream, kind, sequence, units, sent, payload)

    def _on_ring(self) -> None:
        with self._wakeup.condition:
            if not self.closed:
                self.flush()
            self._wakeup.notify()

    def _on_hang_up(self) -> None:
        with self._wakeup.condition:
            self.peer_gone = True
            self._wakeup.notify()
