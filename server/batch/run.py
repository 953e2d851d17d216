"""Runs the items of a batch on a limited share of the running requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from starlette.types import Receive

from engine.errors import EngineError
from server.batch.requests import BatchItem
from server.batch.results import ItemAudio, ItemResult
from server.errors import ApiError, ClientDisconnected, Failure, failure_of
from server.http.disconnect import cancel_on_disconnect
from server.request_models.speech import SpeechBody
from server.services import Services
from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.synthesize import start_synthesis
from server.telemetry.record import RequestRecord

log = logging.getLogger("sonant.requests")

_SHARE = 2
"""A batch uses at most 1 / _SHARE of the running requests, so that other requests can run beside it."""


class ItemRecords:
    """The request records of a batch's items.

    A context manager: on exit it closes the records that are still open, with the error of the batch, or else with
    ClientDisconnected.
    """

    def __init__(self, batch: RequestRecord, count: int, services: Services) -> None:
        self._batch, self._observers = batch, services.observers
        self._open = {index: batch.part_record(index) for index in range(count)}
        for record in self._open.values():
            services.outcomes.add_running(record)

    def start(self, index: int) -> RequestRecord:
        """Return the record of an item that enters the queue now. Its times are measured from here."""
        record = self._open[index]
        record.started = time.monotonic()
        return record

    def end(self, index: int, error: BaseException | None = None) -> None:
        """Close the record of an item that is complete, or that failed with ``error``."""
        record = self._open.pop(index)
        record.set_status(error)
        self._batch.add_part(record)
        self._observers.complete(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in list(self._open):
            self.end(index, error or ClientDisconnected())


async def run_batch(
    items: Sequence[BatchItem], services: Services, record: RequestRecord, client: str, receive: Receive
) -> list[ItemResult]:
    """Synthesize ``items``. Return one result for each, in order. Each item queues behind all earlier requests.

    A batch counts as one of the requests at once of its API key.

    Raises ApiError 429 or 503 when there is no room in the queue, and ClientDisconnected when ``receive``, ASGI's,
    reports that the client disconnected.
    """
    valid = sum(isinstance(item, SpeechBody) for item in items)
    workers = min(max(1, services.admission.max_running // _SHARE), valid)
    with services.key_usage.request(record.owner), ExitStack() as stack:
        tickets = [stack.enter_context(ticket) for ticket in _tickets(workers, services, client)]
        with ItemRecords(record, len(items), services) as records:
            batch = _Batch(items, services, records)
            return await cancel_on_disconnect(receive, batch.run(tickets))


def _tickets(wanted: int, services: Services, client: str) -> Iterator[AdmissionTicket]:
    """Yield up to ``wanted`` admission tickets. Raises ApiError when there is no room for the first one."""
    for number in range(wanted):
        try:
            yield services.admission.ticket(client)
        except ApiError:
            if number == 0:
                raise
            return


class _Batch:
    """The items of one batch, and their results so far."""

    def __init__(self, items: Sequence[BatchItem], services: Services, records: ItemRecords) -> None:
        self._services, self._records = services, records
        self._work = iter([(index, item) for index, item in enumerate(items) if isinstance(item, SpeechBody)])
        self._audio_bytes = 0
        self._results: list[ItemResult | None] = [
            self._failure(index, item) if isinstance(item, ApiError) else None for index, item in enumerate(items)
        ]

    async def run(self, tickets: Sequence[AdmissionTicket]) -> list[ItemResult]:
        """Synthesize all items, as many at once as there are tickets. Return their results, in order."""
        async with asyncio.TaskGroup() as group:
            for ticket in tickets:
                group.create_task(self._run_items(ticket))
        return [result for result in self._results if result is not None]

    async def _run_items(self, ticket: AdmissionTicket) -> None:
        """Synthesize items until none is left. Releases ``ticket``."""
        with ticket:
            for index, body in self._work:
                self._results[index] = await self._result(index, body, ticket)
                self._services.admission.requeue(ticket)

    async def _result(self, index: int, body: SpeechBody, ticket: AdmissionTicket) -> ItemResult:
        record = self._records.start(index)
        try:
            self._services.key_usage.check_quota(record.owner)
            with ticket.evictable():
                audio = await self._audio(body, record, ticket)
        except Exception as error:
            if not isinstance(error, ApiError | EngineError):
                log.exception("id=%s unexpected error", record.id)
            return self._failure(index, error)
        self._records.end(index)
        return audio

    def _failure(self, index: int, error: Exception) -> Failure:
        self._records.end(index, error)
        return failure_of(error)

    async def _audio(self, body: SpeechBody, record: RequestRecord, ticket: AdmissionTicket) -> ItemAudio:
        model = self._services.model(body.model)
        async with start_synthesis(body, model, self._services, record, ticket) as utterance:
            pieces: list[bytes] = []
            try:
                async for piece in utterance.encoded_and_timed():
                    self._count_bytes(len(piece))
                    pieces.append(piece)
            except BaseException:
                self._audio_bytes -= sum(map(len, pieces))
                raise
            return ItemAudio(
                b"".join(pieces),
                utterance.media_type,
                utterance.sample_rate,
                utterance.completion_fields(),
                record.word_fields(),
            )

    def _count_bytes(self, count: int) -> None:
        """Count audio that is kept until the batch is complete. Raises ApiError 413."""
        limit = self._services.settings.limits.max_batch_bytes
        if self._audio_bytes + count > limit:
            message = (
                f"the audio of a batch must have at most {limit} bytes (limits.max_batch_bytes): send fewer items, or "
                "choose a compressed response_format"
            )
            raise ApiError(message, status=413, code="batch_too_large")
        self._audio_bytes += count
