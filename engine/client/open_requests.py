"""The requests that are open in an engine process, by the number of their stream. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator

from engine.client.links import EngineLinks
from engine.client.stream import ResponseQueue, unreachable_error
from engine.errors import EngineError
from engine.transfer import Record, TransferError


class OpenRequests:
    """Opens requests, and hands their records to them. Use it in one event loop.

    numbers: of the streams, each of which is used once.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._queues: dict[int, ResponseQueue] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def __contains__(self, stream: int) -> bool:
        return stream in self._queues

    def open(self, links: EngineLinks, payload: bytes) -> ResponseQueue:
        """Send a request to the engine process. Raises EngineUnavailable."""
        number = next(self._numbers)
        responses = ResponseQueue(number, links, self._queues)
        try:
            links.requests.open(number, payload)
        except TransferError as error:
            self._queues.pop(number, None)
            raise unreachable_error(error) from error
        return responses

    def put(self, record: Record) -> None:
        """Hand a record to its request. No-op if that is over."""
        responses = self._queues.get(record.stream)
        if responses is not None:
            responses.put(record)

    def fail_all(self, error: EngineError) -> None:
        """End all requests with ``error``."""
        for responses in list(self._queues.values()):
            responses.fail(error)
