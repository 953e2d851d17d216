"""One side of links to several peers: the engine's side of its links to all HTTP processes.

The upper bits of the number of a stream say which peer it belongs to, so it is used like a single endpoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from engine.transfer.endpoint import Endpoint
from engine.transfer.link import Side, pair
from engine.transfer.records import LinkClosed, LinkFull, Record
from engine.transfer.wakeup import Wakeup

_PEER_SHIFT = 40
_BACKLOG = 64 << 20
"""Maximum bytes queued for a peer that does not read. Beyond that its link is closed: it never blocks the others."""
_JOIN = struct.Struct("<4Q")
"""What arrives with the descriptors of a link: the peer, and the side, the window and the capacity of the link."""
_DESCRIPTORS = 2
"""Those of the memory and of the connection."""
_log = logging.getLogger(__name__)


def first_stream(peer: int) -> int:
    """Return the lowest number of the streams of ``peer``. On this stream, it is told that it has joined."""
    return peer << _PEER_SHIFT


class MultiEndpoint:
    """One side of several links. Thread-safe. Its methods are those of ``Endpoint``.

    It lives as long as the link to the first peer, 0, which may block the sender as on a single link. Other peers join
    and leave at any time. The first stream of each peer that has joined is opened and ended here. What is sent to a
    peer that has left is discarded.
    """

    def __init__(self, first: Endpoint, joins: socket.socket, wakeup: Wakeup) -> None:
        """Take ownership of ``first``, which is attached to ``wakeup``, and of ``joins``, from where links arrive."""
        self._first, self._joins, self._wakeup = first, joins, wakeup
        self._peers = {0: first}
        self._alone = True
        """Whether no other peer has ever joined: then nothing has to be divided."""
        self._closed = False
        self._acceptor = threading.Thread(target=self._accept, name="link-acceptor", daemon=True)
        self._acceptor.start()

    @property
    def alive(self) -> bool:
        """Whether the link to the first peer is open and the peer is alive."""
        return self._first.alive

    @property
    def fill(self) -> tuple[int, int]:
        """Bytes in all rings that the peers have not read, and the capacity of the rings in bytes."""
        fills = [peer.fill for peer in list(self._peers.values())]
        return sum(used for used, _ in fills), sum(size for _, size in fills)

    @property
    def announced(self) -> float:
        """When a peer last announced a stream that it has not opened yet (``time.monotonic``); 0 if none has."""
        return max(peer.announced for peer in list(self._peers.values()))

    def open(self, stream: int, payload: bytes = b"") -> None:
        """Open a stream."""
        self._send(stream, lambda peer: peer.open(stream, payload))

    def send_all(self, data: Iterable[tuple[int, bytes, int]]) -> None:
        """Send each (stream, payload, units), and wake each peer once."""
        if self._alone:
            self._send(0, lambda peer: peer.send_all(data))
            return
        items = defaultdict[int, list[tuple[int, bytes, int]]](list)
        for item in data:
            items[item[0] >> _PEER_SHIFT].append(item)
        for each in items.values():
            self._send(each[0][0], lambda peer, each=each: peer.send_all(each))  # type: ignore[misc]

    def end(self, stream: int, payload: bytes = b"") -> None:
        """End a stream."""
        self._send(stream, lambda peer: peer.end(stream, payload))

    def fail(self, stream: int, payload: bytes = b"") -> None:
        """End a stream as failed."""
        self._send(stream, lambda peer: peer.fail(stream, payload))

    def credits(self, streams: Iterable[int]) -> list[int]:
        """Return the units that may be sent on each stream now; 0 where the peer has left."""
        if self._alone:
            return self._first.credits(streams)
        streams = list(streams)
        of_peers = defaultdict[int, list[int]](list)
        for stream in streams:
            of_peers[stream >> _PEER_SHIFT].append(stream)
        credit: dict[int, int] = {}
        for number, own in of_peers.items():
            if (peer := self._peers.get(number)) is not None:
                credit.update(zip(own, peer.credits(own), strict=True))
        return [credit.get(stream, 0) for stream in streams]

    def pending(self) -> bool:
        """Return whether ``receive`` has something to return, or credit has arrived since its last call."""
        if self._alone:
            return self._first.pending()
        return any(peer.pending() for peer in list(self._peers.values()))

    def receive(self) -> list[Record]:
        """Return all records that have arrived, those of each peer in order.

        Of a peer that has left, they end with FAIL and CANCEL of its open streams, as those of ``Endpoint.receive``.
        """
        records: list[Record] = []
        for number, peer in list(self._peers.items()):
            records += peer.receive()
            if number and not peer.alive and not peer.pending():
                del self._peers[number]
                peer.close()
        return records

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records for the first peer are in its ring, and return whether they are."""
        return self._first.flush(timeout)

    def close(self) -> None:
        """Close all links. Must not be called under the lock."""
        with self._wakeup.condition:
            self._closed = True
        with contextlib.suppress(OSError):
            self._joins.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._joins.close()
        for peer in self._peers.values():
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, stream: int, send: Callable[[Endpoint], None]) -> None:
        """Call ``send`` with the peer of ``stream``. Raises what it raises for the first peer."""
        peer = self._peers.get(stream >> _PEER_SHIFT)
        if peer is self._first:
            send(peer)
        elif peer is not None:
            try:
                send(peer)
            except LinkFull as error:
                _log.error("closing the link of peer %d, which does not read: %s", stream >> _PEER_SHIFT, error)
                peer.hang_up()
            except LinkClosed:
                pass  # ``receive`` will return the end of its streams

    def _accept(self) -> None:
        """Attach the links that arrive, until the other end of ``joins`` is closed."""
        while (join := _receive_join(self._joins)) is not None:
            number, side = join
            try:
                endpoint = side.attach(self._wakeup, backlog=_BACKLOG)
            except (OSError, RuntimeError):
                _log.exception("a link of peer %d could not be attached", number)
                continue
            with self._wakeup.condition:
                if not self._closed:
                    self._alone = False
                    self._peers[number] = endpoint
            if self._closed:
                endpoint.close()
                return
            self._wakeup.notify()  # a thread that waits has not asked this peer for notifications yet
            self.open(first_stream(number))
            self.end(first_stream(number))


@dataclass(frozen=True, slots=True)
class MultiSide:
    """What a ``MultiEndpoint`` is made of: its side of the first link, and the socket from where further ones arrive.

    Pass it to exactly one of ``attach``, ``spawn`` and ``close``, which takes ownership.
    """

    first: Side
    joins: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptors that a child process must inherit."""
        return (*self.first.descriptors, self.joins)

    def attach(self, wakeup: Wakeup) -> MultiEndpoint:
        """Create the endpoint in this process. wakeup: the condition on which threads wait for it."""
        joins = socket.socket(fileno=self.joins)
        try:
            return MultiEndpoint(self.first.attach(wakeup), joins, wakeup)
        except BaseException:
            joins.close()
            raise

    def close(self) -> None:
        """Close the descriptors; the other side sees its peer as gone."""
        self.first.close()
        os.close(self.joins)

    def to_argument(self) -> str:
        """Return the side as an argument for a child's command line."""
        return f"{self.joins}:{self.first.to_argument()}"

    @staticmethod
    def from_argument(argument: str) -> MultiSide:
        """Return the side passed to this child process, and make its descriptors non-inheritable."""
        joins, _, first = argument.partition(":")
        os.set_inheritable(int(joins), False)
        return MultiSide(Side.from_argument(first), int(joins))


class Joiner:
    """Creates further links to the ``MultiEndpoint`` of another process."""

    def __init__(self, connection: socket.socket, window: int, capacity: int) -> None:
        """Take ownership of ``connection``, the other end of ``joins``. window, capacity: of the links."""
        self._connection, self._window, self._capacity = connection, window, capacity
        connection.setblocking(False)

    def join(self, peer: int) -> Side:
        """Return the other side of a new link for ``peer``, a number that was not used before.

        Raises OSError when the other process has ended, or does not accept its links.
        """
        own, side = pair(window=self._window, capacity=self._capacity)
        try:
            message = _JOIN.pack(peer, side.side, side.window, side.capacity)
            socket.send_fds(self._connection, [message], side.descriptors)
        except OSError:
            own.close()
            raise
        finally:
            side.close()
        return own

    def close(self) -> None:
        """Create no further links."""
        self._connection.close()


def multi_pair(*, window: int, capacity: int) -> tuple[Side, MultiSide, Joiner]:
    """Return both sides of a first link, of which the second may get further links, and what creates these.

    window, capacity: of each link; see ``pair``.
    """
    own, first = pair(window=window, capacity=capacity)
    try:
        joiner, joins = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError:
        own.close()
        first.close()
        raise
    return own, MultiSide(first, joins.detach()), Joiner(joiner, window, capacity)


def _receive_join(connection: socket.socket) -> tuple[int, Side] | None:
    """Wait for a further link. Return its peer and its side, or None once the other end is closed.

    A link whose descriptors do not fit into this process is left out: the peer sees it closed.
    """
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(connection, _JOIN.size, _DESCRIPTORS)
        except OSError:
            return None
        if not message:
            return None
        if len(descriptors) == _DESCRIPTORS:
            break
        _log.error("a link was not accepted: this process has too many open files")
        for descriptor in descriptors:
            os.close(descriptor)
    peer, side, window, capacity = _JOIN.unpack(message)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    memory, doorbell = descriptors
    return peer, Side(memory, doorbell, side, window, capacity)
