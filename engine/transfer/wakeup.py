"""The one condition on which a thread waits for any number of links, and for events of its own process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from engine.transfer.fence import Fence


class Waker(Protocol):
    """Something that can notify a ``Wakeup`` from outside this process."""

    def ask_for_news(self) -> None:
        """Asks to be told of the next change."""


class Wakeup:
    """A ``threading.Condition`` whose waiters no change escapes.

    The lock of ``condition`` guards all state of the endpoints attached to it, so a predicate may look at
    any of them. Waiters and notifiers may be any threads.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._wakers: list[Waker] = []
        self._fence = Fence()

    def attach(self, waker: Waker) -> None:
        """Counts ``waker`` among those that waiters depend on."""
        with self.condition:
            self._wakers.append(waker)

    def detach(self, waker: Waker) -> None:
        """The inverse of ``attach``."""
        with self.condition:
            self._wakers.remove(waker)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleeps until ``predicate()``, which is called under the lock, or for ``timeout`` seconds.

        Returns whether the predicate holds. It may depend on attached endpoints and on state that is
        followed by ``notify``; endpoints attached elsewhere cannot wake this waiter.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.condition:
            while not predicate():
                for waker in self._wakers:
                    waker.ask_for_news()
                self._fence()
                # What changed before the request for news could be seen rings nobody: look once more.
                if predicate():
                    return True
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return False
                self.condition.wait(remaining)
            return True

    def notify(self) -> None:
        """Makes every waiter look again: something of this process has changed."""
        with self.condition:
            self.condition.notify_all()
