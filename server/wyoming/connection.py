"""One Wyoming connection: answers its events one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wyoming.event import Event
from wyoming.info import Describe
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize, SynthesizeStart

from server.errors import ApiError, shown_value
from server.http.clients import address_key
from server.services import CurrentServices, Services
from server.synthesis.delivery import deliver, recorded
from server.telemetry.record import RequestRecord
from server.telemetry.request_log import new_request_id
from server.wyoming.audio import AudioSender
from server.wyoming.events import EventReader, EventWriter
from server.wyoming.incoming import IncomingEvents
from server.wyoming.info import info_of
from server.wyoming.live_text import speak_live_text
from server.wyoming.requests import complete_text_body

_METHOD = "WYOMING"
"""The ``method`` of a record. Its ``path`` is the type of the event."""
_SELECT_PROGRAM = "select-program"
"""An event for which older versions of the ``wyoming`` package have no class."""


class Connection:
    """Answers the events of one client, until it disconnects or a request fails.

    Every failure ends the connection: clients that ignore ``error`` events, such as Home Assistant, would wait for
    audio forever. Events that are not for a text-to-speech service are ignored, as the protocol demands.

    Args:
        reader: reads its events.
        writer: writes events to it.
        current: the services of the server, which a reload may replace between two events.
        host: the client's address, which identifies it for limits, because the protocol has no keys.
        set_idle: called with whether the connection waits for an event.
    """

    def __init__(
        self,
        reader: EventReader,
        writer: EventWriter,
        current: CurrentServices,
        host: str,
        set_idle: Callable[[bool], None],
    ) -> None:
        self._client = address_key(host)
        self._events = IncomingEvents(reader)
        self._writer, self._current, self._set_idle = writer, current, set_idle
        self._model: str | None = None
        """The model that the client has selected; None selects the default."""

    async def run(self) -> None:
        """Answer events until the client disconnects or is silent for ``limits.request_seconds``.

        Raises ApiError, EngineError or ClientDisconnected for the failure that ends the connection.
        """
        try:
            while (event := await self._next_event()) is not None:
                self._set_idle(False)
                with self._current.use() as services:
                    await self._answer(event, services)
                self._set_idle(True)
        finally:
            await self._events.close()

    async def _next_event(self) -> Event | None:
        seconds = self._current.services.settings.limits.request_seconds
        done, _ = await asyncio.wait({self._events.receiving}, timeout=seconds)
        if not done:
            message = f"no complete event arrived within {seconds:g} s (limits.request_seconds)"
            raise ApiError(message, status=408, code="request_timeout")
        return await self._events.next()

    async def _answer(self, event: Event, services: Services) -> None:
        if Describe.is_type(event.type):
            await self._describe(services)
        elif Ping.is_type(event.type):
            await self._writer.write(Pong(text=Ping.from_event(event).text).event())
        elif Synthesize.is_type(event.type):
            record = self._record(event)
            with recorded(record, services):
                body = complete_text_body(event, services.settings.limits)
                model, sender = services.model(self._model), AudioSender(self._writer)
                speaking = deliver(body, model, services, record, self._client, sender)
                await self._events.while_connected(speaking)
        elif SynthesizeStart.is_type(event.type):
            record = self._record(event, live=True)
            with recorded(record, services):
                model = services.model(self._model)
                await speak_live_text(event, self._events, self._writer, model, services, record)
        elif event.type == _SELECT_PROGRAM:
            self._select(event, services)

    async def _describe(self, services: Services) -> None:
        """Send ``info``. Listing voices reads files, so clients take turns, as over HTTP."""
        with services.voice_listing.ticket(self._client) as ticket:
            await ticket.wait_until_running()
            info = await info_of(services.models)
        await self._writer.write(info.event())

    def _select(self, event: Event, services: Services) -> None:
        """Select the model of further requests. Raises ApiError if it does not exist."""
        name = event.data.get("name")
        if not isinstance(name, str):
            raise ApiError(f"name must be a string, got {shown_value(name)}", param="name")
        self._model = services.model(name).name

    def _record(self, event: Event, *, live: bool = False) -> RequestRecord:
        request_id = new_request_id()
        return RequestRecord(request_id, _METHOD, event.type, client=self._client, live=live, speech=True)
