"""Reads and writes Wyoming events, with limits that the ``wyoming`` package does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from wyoming.event import Event, async_write_event

from server.errors import ApiError, ClientDisconnected, shown_value
from server.http.body_budget import BodyAccount
from server.request_models.json_object import parse_body, parse_json_object
from server.synthesis.delivery import within

MAX_LINE_BYTES = 64 * 1024
"""Maximum bytes of the line that an event begins with."""


class EventReader:
    """Reads the events of one connection.

    Args:
        stream: the connection; its line limit should be ``MAX_LINE_BYTES``.
        max_bytes: maximum bytes of an event's data and payload.
        account: counts the bytes of the last event.
    """

    def __init__(self, stream: asyncio.StreamReader, max_bytes: int, account: BodyAccount) -> None:
        self._stream, self._max_bytes, self._account = stream, max_bytes, account

    async def read(self) -> Event | None:
        """Return the next event, without its payload; None at the end of the connection.

        Raises ApiError for bytes that are not a Wyoming event. The connection cannot be read any more then.
        """
        try:
            return await self._read()
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def _read(self) -> Event | None:
        line = await self._line()
        if not line.endswith(b"\n"):
            return None
        header = await _json_object(line)
        kind, data = header.get("type"), header.get("data") or {}
        if not isinstance(kind, str):
            raise _invalid(f"type must be a string, got {shown_value(kind)}")
        if not isinstance(data, dict):
            raise _invalid(f"data must be an object, got {shown_value(data)}")
        sizes = [_size(header, name) for name in ("data_length", "payload_length")]
        if sum(sizes) > self._max_bytes:
            message = f"an event may have at most {self._max_bytes} bytes of data and payload, got {sum(sizes)}"
            raise ApiError(message, status=413, code="request_too_large")
        self._account.resize(sum(sizes))
        if sizes[0]:
            data = {**data, **await _json_object(await self._stream.readexactly(sizes[0]))}
        await self._stream.readexactly(sizes[1])
        return Event(kind, data)

    async def _line(self) -> bytes:
        try:
            return await self._stream.readline()
        except ValueError:
            raise _invalid(f"the first line of an event may have at most {MAX_LINE_BYTES} bytes") from None


async def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        return await parse_body(parse_json_object, raw)
    except ApiError as error:
        raise _invalid(error.message, error.status) from None


def _size(header: dict[str, Any], name: str) -> int:
    value = header.get(name) or 0
    if not isinstance(value, int) or value < 0:
        raise _invalid(f"{name} must be a number of bytes, got {shown_value(value)}")
    return value


def _invalid(reason: str, status: int = 400) -> ApiError:
    return ApiError(f"The bytes are not a Wyoming event: {reason}", status=status, code="invalid_event")


class EventWriter:
    """Writes events to one connection.

    stalled_seconds: timeout for a client that does not read.
    """

    def __init__(self, stream: asyncio.StreamWriter, stalled_seconds: float) -> None:
        self._stream, self._stalled_seconds = stream, stalled_seconds

    async def write(self, event: Event) -> None:
        """Write ``event``. Raises ClientDisconnected when the client disconnected or does not read."""
        try:
            await within(self._stalled_seconds, async_write_event(event, self._stream))
        except OSError:
            raise ClientDisconnected from None
