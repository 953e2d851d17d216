"""Creates links, and passes one side of a link to a child process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol

from engine.transfer.endpoint import Endpoint
from engine.transfer.memory import Segment, allocate, segment_size
from engine.transfer.ring import ALIGNMENT
from engine.transfer.wakeup import Wakeup

MIN_CAPACITY = 8 * ALIGNMENT
"""Smallest ring in bytes: a fragment takes up to a quarter of the ring and must have room for a payload."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a link, not yet attached: its file descriptors, and the parameters that both sides share.

    Pass it to exactly one of ``attach``, ``spawn`` and ``close``, which takes ownership.
    """

    memory: int
    connection: int
    side: int
    window: int
    capacity: int

    def attach(
        self, wakeup: Wakeup, timeout: float = 30.0, *, backlog: int | None = None, reserve: int = 0
    ) -> Endpoint:
        """Create the endpoint in this process.

        wakeup: the condition on which threads wait for the endpoint; timeout: seconds until a full ring raises
        LinkStalled; backlog: maximum number of bytes queued behind a full ring instead of blocking; reserve: units of
        credit that ``without_credit`` counts as none, see ``Endpoint``.
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
            segment,
            connection,
            self.side,
            window=self.window,
            wakeup=wakeup,
            timeout=timeout,
            backlog=backlog,
            reserve=reserve,
        )

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptors that a child process must inherit."""
        return self.memory, self.connection

    def close(self) -> None:
        """Close the descriptors; the other side sees its peer as gone."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def to_argument(self) -> str:
        """Return the side as an argument for a child's command line."""
        return ":".join(map(str, astuple(self)))

    @staticmethod
    def from_argument(argument: str) -> Side:
        """Return the side passed to this child process, and make its descriptors non-inheritable."""
        side = Side(*map(int, argument.split(":")))
        for descriptor in side.descriptors:
            os.set_inheritable(descriptor, False)
        return side


def pair(*, window: int, capacity: int = 1 << 20) -> tuple[Side, Side]:
    """Create a link and return its two sides.

    window: units that each stream may be ahead of its consumer; capacity: ring size per direction in bytes, a multiple
    of 32.
    """
    if not 1 <= window < 1 << 32:
        raise ValueError(f"window must be in 1..2**32 - 1 units, got {window}")
    if capacity < MIN_CAPACITY or capacity % ALIGNMENT:
        raise ValueError(
            f"capacity must be a multiple of {ALIGNMENT} and at least {MIN_CAPACITY} bytes, got {capacity}"
        )
    with contextlib.ExitStack() as undo:
        memory = allocate(segment_size(capacity))
        undo.callback(os.close, memory)
        other = os.dup(memory)
        undo.callback(os.close, other)
        connections = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        undo.pop_all()
    first, second = (connection.detach() for connection in connections)
    return Side(memory, first, 0, window, capacity), Side(other, second, 1, window, capacity)


class Inherited(Protocol):
    """What a child process inherits from ``spawn``: a side of a link, or of several."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptors that the child must inherit."""

    def close(self) -> None:
        """Close the descriptors."""


def spawn(command: Sequence[str], sides: Iterable[Inherited], **options: Any) -> subprocess.Popen[Any]:
    """Start ``command`` and pass ``sides`` to it. ``options`` are those of ``subprocess.Popen``.

    The command must contain each side's ``to_argument``. This process closes its copies of the descriptors, also when
    the start fails: while a copy is open, the other side cannot detect that the child has died.
    """
    sides = list(sides)
    descriptors = [descriptor for side in sides for descriptor in side.descriptors]
    try:
        return subprocess.Popen(command, pass_fds=descriptors, **options)
    finally:
        for side in sides:
            side.close()
