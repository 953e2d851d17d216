"""Where voices are made of recordings and speakers: in a thread of its own, never in the step loop."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from engine.errors import EngineError, EngineFailed
from engine.messages import EncodeRequest, encoded_voice
from engine.reference_encoder import ReferenceEncoder
from engine.request import Voice
from engine.transfer import Endpoint, TransferError

_log = logging.getLogger(__name__)


class ReferenceDesk:
    """Makes voices one at a time, in order, and answers each request on the request link.

    Its thread ends with the process.
    """

    def __init__(self, encoder: ReferenceEncoder, requests: Endpoint) -> None:
        self._encoder, self._requests = encoder, requests
        self._queue: queue.SimpleQueue[tuple[int, Callable[[], Voice]]] = queue.SimpleQueue()
        self._wanted: set[int] = set()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, stream: int, payload: bytes) -> None:
        """Encode the recording of a request; the answer's stream has the request's number."""
        self._take(stream, lambda: self._encoder.encode(EncodeRequest.from_bytes(payload)))

    def introduce(self, stream: int, speaker: str) -> None:
        """Answer with the voice of a built-in speaker, in the same way."""
        self._take(stream, lambda: self._encoder.speaker(speaker))

    def _take(self, stream: int, make: Callable[[], Voice]) -> None:
        self._wanted.add(stream)
        self._queue.put((stream, make))

    def withdraw(self, stream: int) -> None:
        """Nobody waits for the voice any more: a recording whose turn has not come is answered without encoding it."""
        self._wanted.discard(stream)

    def figures(self) -> dict[str, int]:
        """How often a recording's voice was at hand, and how often it had to be made."""
        return {"reference_hits": self._encoder.hits, "reference_misses": self._encoder.misses}

    def _run(self) -> None:
        while self._requests.alive:
            stream, make = self._queue.get()
            try:
                self._answer(stream, make)
            except TransferError:
                _log.exception("the answer to a reference could not be given")
            self._wanted.discard(stream)

    def _answer(self, stream: int, make: Callable[[], Voice]) -> None:
        self._requests.open(stream)
        if stream not in self._wanted:
            self._requests.fail(stream, EngineFailed("the request was withdrawn", code="withdrawn").to_bytes())
            return
        try:
            voice = make()
        except EngineError as error:
            self._requests.fail(stream, error.to_bytes())
        except Exception as error:
            _log.exception("a reference could not be encoded")
            failure = EngineFailed(f"the reference could not be encoded: {error}")
            self._requests.fail(stream, failure.to_bytes())
        else:
            self._requests.end(stream, encoded_voice(voice))
