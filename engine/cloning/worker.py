"""A thread outside the step loop that encodes reference recordings and looks up built-in speakers."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.cloning.encoder import ReferenceEncoder, cache_key
from engine.errors import EngineError, EngineFailed
from engine.protocol.messages import EncodeRequest, pack_voice
from engine.protocol.request import Voice
from engine.transfer import MultiEndpoint, TransferError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _QueuedRequest:
    """A queued request: a recording to encode, the name of a built-in speaker, or the error of an invalid request."""

    stream: int
    content: EncodeRequest | str | EngineError

    @cached_property
    def key(self) -> bytes | None:
        """The cache key of a recording, or None. Only the worker thread computes it, because hashing is slow."""
        return cache_key(self.content) if isinstance(self.content, EncodeRequest) else None


class CloningWorker:
    """Encodes voices in order, in a thread of its own, and answers each request on the request link.

    A request with a cached voice is answered before all others, so there is no head-of-line blocking. Queued recordings
    are batched if the encoder gains from it. A batch never waits for further requests. The thread is a daemon.
    """

    def __init__(self, encoder: ReferenceEncoder, requests: MultiEndpoint) -> None:
        self._encoder, self._requests = encoder, requests
        self._queue: queue.SimpleQueue[_QueuedRequest] = queue.SimpleQueue()
        self._waiting: deque[_QueuedRequest] = deque()
        self._open_streams: set[int] = set()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, stream: int, payload: bytes) -> None:
        """Queue the recording of an EncodeRequest. The answer's stream has the same number as the request's.

        Raises nothing, because the caller serves other requests too. A malformed payload is answered with an error.
        """
        parsed: EncodeRequest | EngineError
        try:
            parsed = EncodeRequest.from_bytes(payload)
        except (ValueError, IndexError) as error:
            parsed = EngineFailed(f"the reference recording is malformed: {error}")
        self._enqueue(_QueuedRequest(stream, parsed))

    def submit_speaker(self, stream: int, speaker: str) -> None:
        """Queue a lookup of a built-in speaker's voice. The answer's stream has the same number as the request's."""
        self._enqueue(_QueuedRequest(stream, speaker))

    def _enqueue(self, request: _QueuedRequest) -> None:
        self._open_streams.add(request.stream)
        self._queue.put(request)

    def abort(self, stream: int) -> None:
        """Abort a request. A recording that is still queued is answered with an error and is not encoded."""
        self._open_streams.discard(stream)

    def stats(self) -> dict[str, int]:
        """Return the hits and misses of the voice cache."""
        return {"reference_hits": self._encoder.hits, "reference_misses": self._encoder.misses}

    def _run(self) -> None:
        while self._requests.alive:
            self._receive()
            self._answer_cached()
            if self._waiting:
                self._answer_next()

    def _receive(self) -> None:
        """Take all queued requests. Block until there is one, unless some are already waiting."""
        if not self._waiting:
            self._waiting.append(self._queue.get())
        while not self._queue.empty():
            self._waiting.append(self._queue.get())

    def _answer_cached(self) -> None:
        """Answer all waiting requests that need no encoding, at any position in the queue."""
        for request in list(self._waiting):
            if (answer := self._immediate_answer(request)) is not None:
                self._waiting.remove(request)
                self._answer(request.stream, answer)

    def _immediate_answer(self, request: _QueuedRequest) -> Voice | EngineError | None:
        if request.stream not in self._open_streams:
            return EngineFailed("the request was aborted", code="aborted")
        if isinstance(request.content, EngineError):
            return request.content
        return None if request.key is None else self._encoder.cached(request.key)

    def _answer_next(self) -> None:
        """Answer the first request, together with the recordings behind it that share its batch."""
        first = self._waiting[0].content
        if isinstance(first, str):
            self._answer_first(1, lambda: [self._encoder.speaker(first)])
            return
        recordings = self._leading_recordings()
        count = self._encoder.batch_size(recordings)
        self._answer_first(count, lambda: self._encoder.encode_all(recordings[:count]))

    def _leading_recordings(self) -> list[EncodeRequest]:
        """Return the recordings at the front of the queue, up to the first request of another kind."""
        recordings = []
        for request in self._waiting:
            if not isinstance(request.content, EncodeRequest):
                break
            recordings.append(request.content)
        return recordings

    def _answer_first(self, count: int, make: Callable[[], Sequence[Voice | EngineError]]) -> None:
        streams = [self._waiting.popleft().stream for _ in range(count)]
        answers: Sequence[Voice | EngineError]
        try:
            answers = make()
        except EngineError as error:
            answers = [error] * count
        except Exception as error:
            _log.exception("answering %d requests for voices failed", count)
            answers = [EngineFailed(f"encoding the reference failed: {error}")] * count
        for stream, answer in zip(streams, answers, strict=True):
            self._answer(stream, answer)

    def _answer(self, stream: int, answer: Voice | EngineError) -> None:
        self._open_streams.discard(stream)
        try:
            self._requests.open(stream)
            if isinstance(answer, EngineError):
                self._requests.fail(stream, answer.to_bytes())
            else:
                self._requests.end(stream, pack_voice(answer))
        except TransferError:
            _log.exception("sending the answer of stream %d failed", stream)
