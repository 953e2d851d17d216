"""The other HTTP processes of a server, as routes use them."""

from __future__ import annotations

from typing import Any, Protocol

from server.telemetry.merged_metrics import Families

ANSWER_SECONDS = 2.0
"""Timeout for the answer of another process. Its event loop may be busy, but not for long."""


class Peers(Protocol):
    """What a process asks and tells the other ones."""

    async def started(self) -> None:
        """Call this when the engines are ready. In the main process, it waits for the additional ones."""

    def may_exit(self) -> bool:
        """Return whether a process that stops, and has no request in flight, may exit: no other one has any."""

    async def outcome(self, request_id: str, owner: str | None) -> dict[str, Any] | None:
        """Return the outcome of a request that another process has served, as JSON fields; None if there is none."""

    async def metrics(self) -> list[Families]:
        """Return the metrics of the other processes; nothing in a process that does not collect them."""

    async def metrics_page(self, accept: str) -> tuple[bytes, str] | None:
        """Return the metrics page and its media type from the process that collects them; None in that process.

        Raises ApiError 503 if that process does not answer.
        """


class NoPeers:
    """The peers of the only HTTP process of a server."""

    async def started(self) -> None:
        """Do nothing."""

    def may_exit(self) -> bool:
        """Return True."""
        return True

    async def outcome(self, request_id: str, owner: str | None) -> None:
        """Return None."""

    async def metrics(self) -> list[Families]:
        """Return nothing."""
        return []

    async def metrics_page(self, accept: str) -> None:
        """Return None."""
