"""The thread that encodes reference recordings and looks up built-in speakers, outside the step loop."""

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
    """What a stream waits for: the voice of a recording, or of a built-in speaker, or the error of its request."""

    stream: int
    wanted: EncodeRequest | str | EngineError

    @cached_property
    def key(self) -> bytes | None:
        """A recording's: to hash it takes a while, and is the business of the desk's thread."""
        return key_of(self.wanted) if isinstance(self.wanted, EncodeRequest) else None


class CloningWorker:
    """Makes voices in order, and answers each request on the request link.

    Voices that are at hand wait for nobody. What waits when its turn comes is encoded together, as far as the encoder
    gains by it; nobody waits for others to come. Its thread ends with the process.
    """

    def __init__(self, encoder: ReferenceEncoder, requests: Endpoint) -> None:
        self._encoder, self._requests = encoder, requests
        self._queue: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self._waiting: deque[_Asked] = deque()
        self._wanted: set[int] = set()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, stream: int, payload: bytes) -> None:
        """Encode the recording of a request; the answer's stream has the request's number.

        Raises nothing, for the caller serves others too: a payload that is no request is answered with that.
        """
        wanted: EncodeRequest | EngineError
        try:
            wanted = EncodeRequest.from_bytes(payload)
        except (ValueError, IndexError) as error:
            wanted = EngineFailed(f"the reference could not be read: {error}")
        self._take(_Asked(stream, wanted))

    def submit_speaker(self, stream: int, speaker: str) -> None:
        """Answer with the voice of a built-in speaker, in the same way."""
        self._take(_Asked(stream, speaker))

    def _take(self, asked: _Asked) -> None:
        self._wanted.add(asked.stream)
        self._queue.put(asked)

    def withdraw(self, stream: int) -> None:
        """Nobody waits for the voice any more: a recording whose turn has not come is answered without encoding it."""
        self._wanted.discard(stream)

    def figures(self) -> dict[str, int]:
        """How often a recording's voice was at hand, and how often it had to be made."""
        return {"reference_hits": self._encoder.hits, "reference_misses": self._encoder.misses}

    def _run(self) -> None:
        while self._requests.alive:
            self._gather()
            self._answer_at_hand()
            if self._waiting:
                self._serve()

    def _gather(self) -> None:
        """Whatever has come; waits until something has."""
        if not self._waiting:
            self._waiting.append(self._queue.get())
        while not self._queue.empty():
            self._waiting.append(self._queue.get())

    def _answer_at_hand(self) -> None:
        """Those whose answer takes no encoding, wherever in the line they are."""
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
        """The first, and the recordings behind it that are best encoded with it."""
        first = self._waiting[0].wanted
        if isinstance(first, str):
            self._answer_first(1, lambda: [self._encoder.speaker(first)])
            return
        recordings = self._recordings()
        count = self._encoder.together(recordings)
        self._answer_first(count, lambda: self._encoder.encode_all(recordings[:count]))

    def _recordings(self) -> list[EncodeRequest]:
        """Those at the front of the line."""
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
