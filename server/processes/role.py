"""Which of the HTTP processes of a server a process is."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """The part of one HTTP process. The default is that of the only one.

    arrivals: in the main process, the socket from which its connections to additional processes arrive.
    main: in an additional process, its connection to the main process, which runs the engines.
    on_main_lost: is called when the main process has ended.
    """

    arrivals: socket.socket | None = None
    main: socket.socket | None = None
    on_main_lost: Callable[[], None] = lambda: None
