"""Making a link, and handing one of its sides to a child process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from engine.transfer.endpoint import Endpoint
from engine.transfer.memory import Segment, allocate, segment_size
from engine.transfer.ring import ALIGNMENT
from engine.transfer.wakeup import Wakeup

MIN_CAPACITY = 8 * ALIGNMENT
"""Bytes of the smallest ring: a fragment is a quarter of it and should hold something."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a link, not yet attached: its own descriptors, and what both sides must agree on.

    Exactly one of ``attach``, ``spawn`` and ``close`` takes it over.
    """

    memory: int
    connection: int
    side: int
    window: int
    capacity: int

    def attach(self, wakeup: Wakeup, patience: float = 30.0, *, backlog: int | None = None) -> Endpoint:
        """The endpoint in this process.

        wakeup: where threads wait for it; patience: seconds until a full ring is LinkStalled; backlog: bytes that may
        be queued behind a full ring instead, see ``Endpoint``.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self.connection)
            try:
                segment = Segment(self.memory, self.capacity)
            finally:
                os.close(self.memory)
            undo.pop_all()
        connection = socket.socket(fileno=self.connection)
        return Endpoint(
            segment, connection, self.side, window=self.window, wakeup=wakeup, patience=patience, backlog=backlog
        )

    def close(self) -> None:
        """Gives the side up: the other side sees its peer gone."""
        os.close(self.memory)
        os.close(self.connection)

    def to_argument(self) -> str:
        """The side as a word on a child's command line."""
        return ":".join(map(str, astuple(self)))

    @staticmethod
    def from_argument(word: str) -> Side:
        """In the child: the side that was handed over. Children of its own do not get it by accident."""
        side = Side(*map(int, word.split(":")))
        for descriptor in (side.memory, side.connection):
            os.set_inheritable(descriptor, False)
        return side


def pair(*, window: int, capacity: int = 1 << 20) -> tuple[Side, Side]:
    """A new link's two sides.

    window: units that each stream may be ahead of its consumer; capacity: bytes of the ring of each
    direction, a multiple of 32.
    """
    if not 1 <= window < 1 << 32:
        raise ValueError("window must be at least 1 and below 2**32 units")
    if capacity < MIN_CAPACITY or capacity % ALIGNMENT:
        raise ValueError(f"capacity must be a multiple of {ALIGNMENT} and at least {MIN_CAPACITY} bytes")
    with contextlib.ExitStack() as undo:
        memory = allocate(segment_size(capacity))
        undo.callback(os.close, memory)
        other = os.dup(memory)
        undo.callback(os.close, other)
        connections = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        undo.pop_all()
    first, second = (connection.detach() for connection in connections)
    return Side(memory, first, 0, window, capacity), Side(other, second, 1, window, capacity)


def spawn(command: Sequence[str], sides: Iterable[Side], **options: Any) -> subprocess.Popen[Any]:
    """Starts ``command`` and hands ``sides`` over to it; ``options`` are those of ``subprocess.Popen``.

    The command carries each side's ``to_argument``. This process's copies are closed, also when starting
    fails: as long as one were open, the child's death would not show.
    """
    sides = list(sides)
    descriptors = [descriptor for side in sides for descriptor in (side.memory, side.connection)]
    try:
        return subprocess.Popen(command, pass_fds=descriptors, **options)
    finally:
        for side in sides:
            side.close()
