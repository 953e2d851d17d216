"""The other end of a link of a stage, for tests."""

from engine.transfer import Kind, Wakeup

TIMEOUT = 20


class RecordCollector:
    """The other end of a link; collects records."""

    def __init__(self, side):
        self.wakeup = Wakeup()
        self.end = side.attach(self.wakeup)
        self.records = []

    def terminals(self, count):
        """Wait until ``count`` streams have ended; return stream -> END or FAIL record."""

        def enough():
            self.records += self.end.receive()
            return len(self._terminals()) >= count

        assert self.wakeup.wait_for(enough, TIMEOUT), self.records
        return self._terminals()

    def _terminals(self):
        return {record.stream: record for record in self.records if record.kind in (Kind.END, Kind.FAIL)}
