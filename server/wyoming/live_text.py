"""Streaming text: speech for text that arrives between ``synthesize-start`` and ``synthesize-stop``."""

from __future__ import annotations

import asyncio

from wyoming.event import Event
from wyoming.tts import SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeStopped

from server.errors import ApiError, ClientDisconnected
from server.limits import Limits
from server.live.utterance import LiveUtterance
from server.served_model import ServedModel
from server.services import Services
from server.telemetry.record import RequestRecord
from server.wyoming.audio import AudioSender
from server.wyoming.events import EventWriter
from server.wyoming.incoming import IncomingEvents
from server.wyoming.requests import live_text_body, text_of


async def speak_live_text(
    start: Event,
    events: IncomingEvents,
    writer: EventWriter,
    model: ServedModel,
    services: Services,
    record: RequestRecord,
) -> None:
    """Speak with ``model`` the text that follows ``start`` while it arrives, as a live session with one utterance.

    Raises ApiError, EngineError or ClientDisconnected.
    """
    limits = services.settings.limits
    services.admission.check_open()
    with services.sessions.session(record.client):
        body = live_text_body(start, limits)
        utterance = LiveUtterance(body, model, services, record, 0, AudioSender(writer), record.client)
        try:
            await _speak(utterance, events, limits)
        except BaseException as error:
            await utterance.cancel(error)
            raise
    await writer.write(SynthesizeStopped().event())


async def _speak(utterance: LiveUtterance, events: IncomingEvents, limits: Limits) -> None:
    try:
        async with asyncio.timeout(limits.live_seconds) as end:
            await _receive_text(utterance, events, limits.live_idle_seconds)
            await events.while_connected(_end_of(utterance))
    except TimeoutError:
        if not end.expired():
            raise
        message = f"streaming text may last at most {limits.live_seconds:g} s (limits.live_seconds)"
        raise ApiError(message, status=408, code="session_expired") from None


async def _end_of(utterance: LiveUtterance) -> None:
    """Wait for the end of ``utterance``, which goes on if this is cancelled. Raises its error."""
    await asyncio.wait({utterance.task})
    utterance.task.result()


async def _receive_text(utterance: LiveUtterance, events: IncomingEvents, idle_seconds: float) -> None:
    """Pass the client's text to ``utterance`` until ``synthesize-stop``.

    A ``synthesize`` event is ignored: clients send the whole text once more for servers without streaming text.
    Text after the end of an utterance that was cut at its length limit is ignored, too.
    """
    while True:
        event = await _next_event(utterance, events, idle_seconds)
        ended = utterance.task.done()
        if SynthesizeStop.is_type(event.type):
            if not ended:
                utterance.finish()
            return
        if SynthesizeChunk.is_type(event.type) and not ended:
            utterance.add(text_of(event))
        if SynthesizeStart.is_type(event.type):
            message = "synthesize-start is not allowed before synthesize-stop ends the streaming text in progress"
            raise ApiError(message, param="type")


async def _next_event(utterance: LiveUtterance, events: IncomingEvents, idle_seconds: float) -> Event:
    """Return the next event. Raises the error of ``utterance`` as soon as it fails."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + idle_seconds
    while not events.receiving.done():
        awaited: set[asyncio.Task[Event | None] | asyncio.Task[None]] = {events.receiving}
        if not utterance.task.done():
            awaited.add(utterance.task)
        done, _ = await asyncio.wait(awaited, timeout=deadline - clock(), return_when=asyncio.FIRST_COMPLETED)
        if utterance.task in done:
            utterance.task.result()
        elif not done:
            message = f"no event arrived for {idle_seconds:g} s (limits.live_idle_seconds) before synthesize-stop"
            raise ApiError(message, status=408, code="session_idle")
    event = await events.next()
    if event is None:
        raise ClientDisconnected
    return event
