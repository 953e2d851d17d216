"""Parses requests in a thread of its own, so that building and tokenizing prompts does not delay the talker's steps."""

from __future__ import annotations

import threading
from collections import deque

from engine.talker.requests import Intent, RequestReader
from engine.transfer import Wakeup


class RequestThread:
    """Runs a ``RequestReader``, and hands over what it has read in order. ``TalkerStage`` reads it from its own thread.

    The thread ends when the client disconnects.
    """

    def __init__(self, reader: RequestReader, requests: Wakeup, stage: Wakeup) -> None:
        """requests: the condition of the request link; stage: the condition on which the stage waits, another one."""
        self._reader, self._requests, self._stage = reader, requests, stage
        self._intents: deque[Intent] = deque()
        self._error: Exception | None = None
        self._parsing = False
        threading.Thread(target=self._run, name="request-reader", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the client is still connected."""
        return self._reader.alive

    def stats(self) -> dict[str, int]:
        """Return the counters of the reader for the statistics."""
        return self._reader.stats()

    def pending(self) -> bool:
        """Return whether ``take`` has something to return."""
        return bool(self._intents) or self._error is not None

    def expects(self) -> bool:
        """Return whether ``take`` will soon return more: records have arrived, or a request was announced."""
        return self.pending() or self._parsing or self._reader.pending() or self._reader.announced()

    def take(self) -> list[Intent]:
        """Return what was read since the last call, in order. Raises the error that has ended the thread."""
        if self._error is not None:
            raise self._error
        return [self._intents.popleft() for _ in range(len(self._intents))]

    def _run(self) -> None:
        try:
            while self._reader.alive:
                self._requests.wait_for(lambda: self._reader.pending() or not self._reader.alive)
                self._parsing = True
                for intent in self._reader.take():
                    self._intents.append(intent)
                    self._stage.notify()
                self._parsing = False
        except Exception as error:
            self._error = error
        finally:
            self._stage.notify()
