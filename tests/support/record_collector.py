"""The other end of a link of a stage, for tests."""

from __future__ import annotations

import threading

from engine.transfer import Kind, Record, Side, Wakeup

TIMEOUT = 20


class RecordCollector:
    """The other end of a link; collects records. stage: the thread of the stage, if the fixture sets it."""

    stage: threading.Thread

    def __init__(self, side: Side) -> None:
        self.wakeup = Wakeup()
        self.end = side.attach(self.wakeup)
        self.records: list[Record] = []

    def terminals(self, count: int) -> dict[int, Record]:
        """Wait until ``count`` streams have ended; return stream -> END or FAIL record."""

        def enough() -> bool:
            self.records += self.end.receive()
            return len(self._terminals()) >= count

        assert self.wakeup.wait_for(enough, TIMEOUT), self.records
        return self._terminals()

    def _terminals(self) -> dict[int, Record]:
        return {record.stream: record for record in self.records if record.kind in (Kind.END, Kind.FAIL)}
