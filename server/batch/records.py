"""What is known of each item of a batch, as if it were a request of its own."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from server.errors import ClientLeft
from server.request_record import RequestRecord
from server.services import Services


class ItemRecords:
    """Their records. When the batch is over none is left open: an item that has no end ends as the batch does."""

    def __init__(self, batch: RequestRecord, count: int, services: Services) -> None:
        self._batch, self._journal = batch, services.journal
        self._open = {index: batch.of_part(index) for index in range(count)}
        for record in self._open.values():
            services.outcomes.begun(record)

    def stands_in_line(self, index: int) -> RequestRecord:
        """The record of an item for which the batch now wants its turn. Its times begin here."""
        record = self._open[index]
        record.started = time.monotonic()
        return record

    def end(self, index: int, error: BaseException | None = None) -> None:
        """An item is spoken, or has failed."""
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
            self.end(index, error or ClientLeft())
