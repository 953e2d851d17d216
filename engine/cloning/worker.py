"""A thread outside the step loop that encodes reference recordings and looks up built-in speakers."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.cloning.encoder import ReferenceEncoder, key_of
from engine.errors import EngineError, EngineFailed
from engine.protocol.messages import EncodeRequest, encoded_voice
from engine.protocol.request import Voice
from engine.transfer import Endpoint, TransferError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Asked:
    """A queued request: a recording to encode, the name of a built-in speaker, or the error of an invalid request."""

    stream: int
    wanted: EncodeRequest | str | EngineError

    @cached_property
    def key(self) -> bytes | None:
        """The cache key of a recording, or None. Only the worker thread computes it, because hashing is slow."""
        return key_of(self.wanted) if isinstance(self.wanted, EncodeRequest) else None


class CloningWorker:
    """Encodes voices in order, in a thread of its own, and answers each request on the request link.

    A request with a cached voice is answered before all others, so there is no head-of-line blocking. Queued recordings
    are batched if the encoder gains from it. A batch never waits for further requests. The thread is a daemon.
    """

    def __init__(self, encoder: ReferenceEncoder, requests: Endpoint) -> None:
        self._encoder, self._requests = encoder, requests
        self._queue: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self._waiting: deque[_Asked] = deque()
        self._wanted: set[int] = set()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, stream: int, payload: bytes) -> None:
        """Queue the recording of an EncodeRequest. The answer's stream has the same number as the request's.

        Raises nothing, because the caller serves other requests too. A malformed payload is answered with an error.
        """
        wanted: EncodeRequest | EngineError
        try:
            wanted = EncodeRequest.from_bytes(payload)
        except (ValueError, IndexError) as error:
            wanted = EngineFailed(f"the reference could not be read: {error}")
        self._take(_Asked(stream, wanted))

    def submit_speaker(self, stream: int, speaker: str) -> None:
        """Queue a lookup of a built-in speaker's voice. The answer's stream has the same number as the request's."""
        self._take(_Asked(stream, speaker))

    def _take(self, asked: _Asked) -> None:
        self._wanted.add(asked.stream)
        self._queue.put(asked)

    def withdraw(self, stream: int) -> None:
        """Abort a request. A recording that is still queued is answered with an error and is not encoded."""
        self._wanted.discard(stream)

    def figures(self) -> dict[str, int]:
        """Return the hits and misses of the voice cache."""
        return {"reference_hits": self._encoder.hits, "reference_misses": self._encoder.misses}

    def _run(self) -> None:
        while self._requests.alive:
            self._gather()
            self._answer_at_hand()
            if self._waiting:
                self._serve()

    def _gather(self) -> None:
        """Take all queued requests. Block until there is one, unless some are already waiting."""
        if not self._waiting:
            self._waiting.append(self._queue.get())
        while not self._queue.empty():
            self._waiting.append(self._queue.get())

    def _answer_at_hand(self) -> None:
        """Answer all waiting requests that need no encoding, at any position in the queue."""
        for asked in list(self._waiting):
            if (answer := self._at_hand(asked)) is not None:
                self._waiting.remove(asked)
                self._answer(asked.stream, answer)

    def _at_hand(self, asked: _Asked) -> Voice | EngineError | None:
        if asked.stream not in self._wanted:
            return EngineFailed("the request was withdrawn", code="withdrawn")
        if isinstance(asked.wanted, EngineError):
            return asked.wanted
        return None if asked.key is None else self._encoder.at_hand(asked.key)

    def _serve(self) -> None:
        """Answer the first request, together with the recordings behind it that share its batch."""
        first = self._waiting[0].wanted
        if isinstance(first, str):
            self._answer_first(1, lambda: [self._encoder.speaker(first)])
            return
        recordings = self._recordings()
        count = self._encoder.together(recordings)
        self._answer_first(count, lambda: self._encoder.encode_all(recordings[:count]))

    def _recordings(self) -> list[EncodeRequest]:
        """Return the recordings at the front of the queue, up to the first request of another kind."""
        recordings = []
        for asked in self._waiting:
            if not isinstance(asked.wanted, EncodeRequest):
                break
            recordings.append(asked.wanted)
        return recordings

    def _answer_first(self, count: int, make: Callable[[], Sequence[Voice | EngineError]]) -> None:
        streams = [self._waiting.popleft().stream for _ in range(count)]
        made: Sequence[Voice | EngineError]
        try:
            made = make()
        except EngineError as error:
            made = [error] * count
        except Exception as error:
            _log.exception("references could not be encoded")
            made = [EngineFailed(f"the reference could not be encoded: {error}")] * count
        for stream, answer in zip(streams, made, strict=True):
            self._answer(stream, answer)

    def _answer(self, stream: int, made: Voice | EngineError) -> None:
        self._wanted.discard(stream)
        try:
            self._requests.open(stream)
            if isinstance(made, EngineError):
                self._requests.fail(stream, made.to_bytes())
            else:
                self._requests.end(stream, encoded_voice(made))
        except TransferError:
            _log.exception("the answer to a reference could not be given")
