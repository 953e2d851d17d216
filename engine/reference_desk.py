"""Where recordings are encoded: in a thread of its own, never in the step loop."""

from __future__ import annotations

import logging
import queue
import threading

from engine.errors import EngineError, EngineFailed
from engine.messages import EncodeRequest, encoded_voice
from engine.reference_encoder import ReferenceEncoder
from engine.transfer import Endpoint, TransferError

_log = logging.getLogger(__name__)


class ReferenceDesk:
    """Takes EncodeRequests one at a time, in order, and answers each on the request link.

    Its thread ends with the process.
    """

    def __init__(self, encoder: ReferenceEncoder, requests: Endpoint) -> None:
        self._encoder, self._requests = encoder, requests
        self._queue: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._wanted: set[int] = set()
        threading.Thread(target=self._run, name="references", daemon=True).start()

    def submit(self, stream: int, payload: bytes) -> None:
        """Encode the recording of a request; the answer's stream has the request's number."""
        self._wanted.add(stream)
        self._queue.put((stream, payload))

    def withdraw(self, stream: int) -> None:
        """Nobody waits for the voice any more: a recording whose turn has not come is answered without encoding it."""
        self._wanted.discard(stream)

    def _run(self) -> None:
        while self._requests.alive:
            stream, payload = self._queue.get()
            try:
                self._answer(stream, payload)
            except TransferError:
                _log.exception("the answer to a reference could not be given")
            self._wanted.discard(stream)

    def _answer(self, stream: int, payload: bytes) -> None:
        self._requests.open(stream)
        if stream not in self._wanted:
            self._requests.fail(stream, EngineFailed("the request was withdrawn", code="withdrawn").to_bytes())
            return
        try:
            voice = self._encoder.encode(EncodeRequest.from_bytes(payload))
        except EngineError as error:
            self._requests.fail(stream, error.to_bytes())
        except Exception as error:
            _log.exception("a reference could not be encoded")
            failure = EngineFailed(f"the reference could not be encoded: {error}")
            self._requests.fail(stream, failure.to_bytes())
        else:
            self._requests.end(stream, encoded_voice(voice))
