"""Runs the items of a batch on a limited share of the running requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from engine.errors import EngineError
from server.api.models import check_model
from server.api.requests import SpeechBody
from server.batch.requests import Asked
from server.batch.results import Result, Spoken
from server.errors import ApiError, ClientDisconnected, Failure, failure_of
from server.services import Services
from server.synthesis.admission import Seat
from server.synthesis.start import opened, rendering_of
from server.telemetry.record import RequestRecord


class ItemRecords:
    """The request records of a batch's items.

    A context manager: on exit it closes the records that are still open, with the error of the batch, or else with
    ClientDisconnected.
    """

    def __init__(self, batch: RequestRecord, count: int, services: Services) -> None:
        self._batch, self._journal = batch, services.journal
        self._open = {index: batch.of_part(index) for index in range(count)}
        for record in self._open.values():
            services.outcomes.begun(record)

    def stands_in_line(self, index: int) -> RequestRecord:
        """Return the record of an item that enters the queue now. Its times are measured from here."""
        record = self._open[index]
        record.started = time.monotonic()
        return record

    def end(self, index: int, error: BaseException | None = None) -> None:
        """Close the record of an item that is complete, or that failed with ``error``."""
        record = self._open.pop(index)
        record.settled(error)
        self._batch.includes(record)
        self._journal.ended(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in list(self._open):
            self.end(index, error or ClientDisconnected())


log = logging.getLogger("sonant.requests")

_SHARE = 2
"""A batch uses at most 1 / _SHARE of the running requests, so that other requests can run beside it."""


class Batch:
    """Synthesizes the items ``asked``. Each item queues behind all requests that arrived before it.

    The constructor takes the seats. It raises ApiError 429 or 503 when it cannot get the first one. ``held`` releases
    all seats, and closes the records of items that were not synthesized.
    """

    def __init__(
        self, asked: Sequence[Asked], services: Services, record: RequestRecord, held: ExitStack, client: str
    ) -> None:
        self._services, self._client = services, client
        bodies = [(index, each) for index, each in enumerate(asked) if isinstance(each, SpeechBody)]
        self._work = iter(bodies)
        self._kept = 0
        most = max(1, services.admission.most_running // _SHARE)
        self._seats = list(self._taken(min(most, len(bodies)), held))
        self._records = held.enter_context(ItemRecords(record, len(asked), services))
        self._results: list[Result | None] = [
            self._failure(index, each) if isinstance(each, ApiError) else None for index, each in enumerate(asked)
        ]

    def _taken(self, wanted: int, held: ExitStack) -> Iterator[tuple[Seat, ExitStack]]:
        """Yield up to ``wanted`` seats, each with the stack that releases it; ``held`` closes every stack.

        Raises ApiError when there is no room for the first one.
        """
        for number in range(wanted):
            stack = held.enter_context(ExitStack())
            try:
                yield stack.enter_context(self._services.admission.seat(self._client)), stack
            except ApiError:
                if number == 0:
                    raise
                return

    async def results(self) -> list[Result]:
        """Return one result for each item, in order, once all items are done."""
        async with asyncio.TaskGroup() as group:
            for seat, stack in self._seats:
                group.create_task(self._run(seat, stack))
        return [result for result in self._results if result is not None]

    async def _run(self, seat: Seat, stack: ExitStack) -> None:
        with stack:
            for index, body in self._work:
                self._results[index] = await self._result(index, body, seat)
                self._services.admission.again(seat)

    async def _result(self, index: int, body: SpeechBody, seat: Seat) -> Result:
        record = self._records.stands_in_line(index)
        try:
            with seat.evictable():
                spoken = await self._spoken(body, record, seat)
        except Exception as error:
            if not isinstance(error, ApiError | EngineError):
                log.exception("id=%s an unexpected failure", record.id)
            return self._failure(index, error)
        self._records.end(index)
        return spoken

    def _failure(self, index: int, error: Exception) -> Failure:
        self._records.end(index, error)
        return failure_of(error)

    async def _spoken(self, body: SpeechBody, record: RequestRecord, seat: Seat) -> Spoken:
        check_model(body.model, self._services.settings)
        with ExitStack() as held:
            utterance = await opened(body, self._services, record, held, seat)
            rendering = rendering_of(body, self._services, held)
            pieces: list[bytes] = []
            held.callback(lambda: self._release(pieces))
            async for piece in utterance.encoded(rendering):
                self._keep(piece)
                pieces.append(piece)
            audio = b"".join(pieces)
            pieces.clear()
            return Spoken(audio, rendering.media_type, rendering.sample_rate, utterance.ending)

    def _keep(self, piece: bytes) -> None:
        most = self._services.settings.limits.max_batch_bytes
        if self._kept + len(piece) > most:
            message = f"A batch may have {most} bytes of audio: ask for fewer items, or another format."
            raise ApiError(message, status=413, code="batch_too_large")
        self._kept += len(piece)

    def _release(self, pieces: list[bytes]) -> None:
        """Stop counting the audio of an item that failed."""
        self._kept -= sum(len(piece) for piece in pieces)
