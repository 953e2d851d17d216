"""The admissions of all models of a server together, for readiness and shutdown."""

from __future__ import annotations

from collections.abc import Iterable

from server.synthesis.admission import Admission


class AdmissionGroup:
    """Closes several admissions together, and counts their requests."""

    def __init__(self, admissions: Iterable[Admission]) -> None:
        self._admissions = [*admissions]
        self._closed = False

    @property
    def ticket_count(self) -> int:
        """Number of requests that have a ticket, running or not."""
        return sum(each.ticket_count for each in self._admissions)

    def add(self, admission: Admission) -> None:
        """Add the admission of a model that a reload has added."""
        self._admissions.append(admission)
        if self._closed:
            admission.close()

    def remove(self, admission: Admission) -> None:
        """Remove the admission of a model that a reload has removed, once its requests have ended."""
        self._admissions.remove(admission)

    def close(self) -> None:
        """Refuse new requests because the server is draining; requests that have a ticket continue."""
        self._closed = True
        for each in self._admissions:
            each.close()

    def check_open(self) -> None:
        """Raise ApiError 503 if the server is draining."""
        for each in self._admissions:
            each.check_open()
