"""Runs the items of a batch on a limited share of the running requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
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
from server.served_model import ServedModel
from server.services import Services
from server.synthesis.admission import Admission
from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.synthesize import start_synthesis
from server.telemetry.record import RequestRecord

log = logging.getLogger("sonant.requests")

_SHARE = 2
"""A batch uses at most 1 / _SHARE of a model's running requests, so that other requests can run beside it."""
_Item = tuple[int, SpeechBody]
"""The index of an item in its batch, and the item."""


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

    Raises ApiError 429 or 503 when there is no room in the queue of a model, EngineError when no engine of any model
    accepts requests, and ClientDisconnected when ``receive``, ASGI's, reports that the client disconnected.
    """
    work, results = _by_model(items, services)
    services.check_accepting(services.models[index] for index in work)
    with await services.key_usage.request(record.owner), ExitStack() as stack:
        tickets = [
            (services.models[index], stack.enter_context(ticket))
            for index, own in work.items()
            for ticket in _tickets(services.models[index].admission, len(own), client)
        ]
        with ItemRecords(record, len(items), services) as records:
            batch = _Batch(work, results, services, records)
            return await cancel_on_disconnect(receive, batch.run(tickets))


def _by_model(
    items: Sequence[BatchItem], services: Services
) -> tuple[dict[int, list[_Item]], list[ApiError | SpeechBody]]:
    """Return the items of each model, by the model's index, and all items with the errors of the invalid ones."""
    work: dict[int, list[_Item]] = {}
    checked = list(items)
    for index, item in enumerate(items):
        if isinstance(item, SpeechBody):
            try:
                model = services.models.index(services.model(item.model))
            except ApiError as error:
                checked[index] = error
            else:
                work.setdefault(model, []).append((index, item))
    return work, checked


def _tickets(admission: Admission, items: int, client: str) -> Iterator[AdmissionTicket]:
    """Yield admission tickets for a model's share of a batch. Raises ApiError when there is no room for the first."""
    for number in range(min(max(1, admission.max_running // _SHARE), items)):
        try:
            yield admission.ticket(client)
        except ApiError:
            if number == 0:
                raise
            return


class _Batch:
    """The items of one batch, and their results so far."""

    def __init__(
        self,
        work: Mapping[int, list[_Item]],
        items: Sequence[BatchItem],
        services: Services,
        records: ItemRecords,
    ) -> None:
        self._services, self._records = services, records
        self._work = {services.models[index].name: iter(own) for index, own in work.items()}
        self._audio_bytes = 0
        self._results: list[ItemResult | None] = [
            self._failure(index, item) if isinstance(item, ApiError) else None for index, item in enumerate(items)
        ]

    async def run(self, tickets: Sequence[tuple[ServedModel, AdmissionTicket]]) -> list[ItemResult]:
        """Synthesize all items, as many at once as there are tickets. Return their results, in order."""
        async with asyncio.TaskGroup() as group:
            for model, ticket in tickets:
                group.create_task(self._run_items(model, ticket))
        return [result for result in self._results if result is not None]

    async def _run_items(self, model: ServedModel, ticket: AdmissionTicket) -> None:
        """Synthesize items of ``model`` until none is left. Releases ``ticket``."""
        with ticket:
            for index, body in self._work[model.name]:
                self._results[index] = await self._result(index, body, model, ticket)
                model.admission.requeue(ticket)

    async def _result(self, index: int, body: SpeechBody, model: ServedModel, ticket: AdmissionTicket) -> ItemResult:
        record = self._records.start(index)
        try:
            self._services.key_usage.check_quota(record.owner)
            with ticket.evictable():
                audio = await self._audio(body, model, record, ticket)
        except Exception as error:
            if not isinstance(error, ApiError | EngineError):
                log.exception("id=%s unexpected error", record.id)
            return self._failure(index, error)
        self._records.end(index)
        return audio

    def _failure(self, index: int, error: Exception) -> Failure:
        self._records.end(index, error)
        return failure_of(error)

    async def _audio(
        self, body: SpeechBody, model: ServedModel, record: RequestRecord, ticket: AdmissionTicket
    ) -> ItemAudio:
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
