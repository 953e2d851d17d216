"""Runs a speech request of a listener that does not speak HTTP: record, admission, synthesis, and delivery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from engine.errors import EngineError
from server.errors import ApiError, ClientDisconnected
from server.request_models.speech import SpeechBody
from server.served_model import ServedModel
from server.services import Services
from server.synthesis.synthesize import start_synthesis
from server.synthesis.utterance import Utterance
from server.telemetry.record import RequestRecord

log = logging.getLogger("sonant.requests")


class Recipient(Protocol):
    """The client that receives an utterance.

    All methods raise ClientDisconnected when it disconnected or stopped reading.
    """

    async def start(self, utterance: Utterance) -> None:
        """Announce the audio, at the first audio."""

    async def send(self, audio: bytes) -> None:
        """Send a piece of audio. May wait for the client to read."""

    async def finish(self, utterance: Utterance) -> None:
        """Announce the end of the audio."""


@contextmanager
def recorded(
    record: RequestRecord, services: Services, is_stopping: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Complete ``record`` with the result of the body, and log unexpected errors.

    is_stopping: whether a cancellation comes from the server; otherwise the client cancelled the request.
    """
    error: BaseException | None = None
    if record.is_speech:
        services.outcomes.add_running(record)
    try:
        yield
    except BaseException as caught:
        error = caught
        if not isinstance(error, ApiError | ClientDisconnected | EngineError | asyncio.CancelledError):
            log.exception("id=%s unexpected error", record.id)
        raise
    finally:
        if isinstance(error, asyncio.CancelledError) and not is_stopping():
            error = ClientDisconnected()
        record.set_status(error)
        services.observers.complete(record)


async def deliver(
    body: SpeechBody, model: ServedModel, services: Services, record: RequestRecord, client: str, recipient: Recipient
) -> None:
    """Synthesize ``body`` with ``model``, and send the audio to ``recipient``. Cancelling it aborts the utterance.

    Raises ApiError, EngineError or ClientDisconnected.

    client: whose limits and place in the queue apply.
    """
    clock = asyncio.get_running_loop().time
    with (
        await services.key_usage.request(record.owner),
        model.admission.ticket(client) as ticket,
        ticket.evictable(),
    ):
        async with start_synthesis(body, model, services, record, ticket) as utterance:
            await recipient.start(utterance)
            async for piece in utterance.encoded_and_timed():
                started = clock()
                ticket.begin_client_wait()
                await recipient.send(piece)
                ticket.end_client_wait()
                record.add_backpressure(clock() - started)
            await recipient.finish(utterance)


async def within(seconds: float, sending: Awaitable[None]) -> None:
    """Await ``sending``. Raises ClientDisconnected when the client does not read for ``seconds``."""
    try:
        async with asyncio.timeout(seconds) as timeout:
            await sending
    except TimeoutError:
        if not timeout.expired():
            raise
        raise ClientDisconnected from None
