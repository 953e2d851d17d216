"""One live utterance: text goes to the engine as it comes, audio to the client as it is made."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

from engine.request import Completion, FinishReason, SpeechRequest, Voice
from engine.speech_stream import SpeechStream
from server.admission import Seat
from server.audio.rendering import Rendering
from server.deadline import first_sound_within
from server.errors import ApiError
from server.live.opening import Opening
from server.live.stream import LiveStream
from server.request_record import RequestRecord
from server.sayable import is_sayable
from server.schemas import SpeechBody
from server.services import Services
from server.speaking import describe, rendering_of
from server.tasks import speech_request
from server.utterance import Utterance


class Listener(Protocol):
    """Who hears it. Both raise when the listener is gone or takes nothing for too long."""

    async def hear(self, audio: bytes) -> None:
        """A piece of audio."""

    async def learn(self, fields: dict[str, Any]) -> None:
        """An event."""


class Speaking:
    """Speaks while text is added; over when ``task`` is. Its failures are the task's."""

    def __init__(
        self,
        body: SpeechBody,
        services: Services,
        session: RequestRecord,
        number: int,
        listener: Listener,
        client: str,
    ) -> None:
        self._body, self._services, self._session, self._listener = body, services, session, listener
        self._client = client
        self._live_stream: LiveStream | None = None
        self._record = session.of_part(number)
        self._record.characters, self._record.speed = 0, body.speed
        services.outcomes.begun(self._record)
        self._reason: BaseException | None = None
        self._opening = Opening()
        self._begun = asyncio.Event()
        self._complete = False
        self._characters = 0
        self._unread: list[str] = []
        self._stream: SpeechStream | None = None
        self.task = asyncio.create_task(self._speak())
        self.task.add_done_callback(self._over)

    @property
    def complete(self) -> bool:
        """Whether its text is."""
        return self._complete

    def add(self, piece: str) -> None:
        """More text. Raises ApiError where it becomes too long."""
        if not piece:
            return
        self._characters += len(piece)
        self._record.characters = self._characters
        most = self._services.settings.limits.max_input_chars
        if self._characters > most:
            message = f"The text of an utterance may have {most} characters."
            raise ApiError(message, param="text", code="string_above_max_length")
        if not self._begun.is_set():
            if self._opening.add(piece):
                self._begin()
        elif self._stream is None:
            self._unread.append(piece)
        else:
            self._stream.append(piece)

    def finish(self) -> None:
        """The text is complete. Raises ApiError where there is nothing to say."""
        if not is_sayable(self._opening.text):
            raise ApiError("There is nothing to say.", param="text")
        self._complete = True
        if self._live_stream is not None:
            self._live_stream.finish()
        if self._begun.is_set() and self._stream is not None:
            self._stream.append("", last=True)
        self._begin()

    async def cancel(self, reason: BaseException | None = None) -> None:
        """Be silent; nothing is heard after this returns. reason: what broke it off, unless the client wished so."""
        self._reason = reason
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _begin(self) -> None:
        """Until now it waited for the client."""
        if not self._begun.is_set():
            self._record.started = time.monotonic()
            self._begun.set()

    def _over(self, task: asyncio.Task[None]) -> None:
        """Write down how it ended, which may be before its first step."""
        error = self._reason if task.cancelled() else task.exception()
        self._record.settled(error)
        if error is None and task.cancelled():
            self._record.completion = Completion(FinishReason.CANCELLED, 0, 0)
        self._session.includes(self._record)
        self._services.journal.ended(self._record)

    async def _speak(self) -> None:
        await self._begun.wait()
        with ExitStack() as held:
            seat = held.enter_context(self._services.admission.seat(self._client))
            with seat.evictable():
                utterance = await self._opened(seat, held)
                rendering = rendering_of(self._body, self._services, held)
                await self._give(utterance, rendering, seat)

    async def _opened(self, seat: Seat, held: ExitStack) -> Utterance:
        """The utterance at its first sound; ``held`` closes it. Raises ApiError 504 when there is none in time."""
        settings = self._services.settings
        async with first_sound_within(settings.limits.first_sound_seconds):
            asked = await self._asked()
            await seat.turn()
            self._live_stream = LiveStream(self._submitted(asked), seat, complete=self._complete)
            utterance = Utterance(self._live_stream, self._record, seat, trim=settings.trim_leading_silence)
            held.callback(utterance.close)
            await utterance.open()
        return utterance

    async def _asked(self) -> SpeechRequest:
        """Whose voice, and how; a clone is of the voice alone, since text that is not there yet has no context."""
        services = self._services
        engine, owner = services.engine, self._record.owner
        asked = await speech_request(self._body, engine, services.settings, services.references, owner)
        describe(self._record, self._body, asked)
        if asked.voice is None:
            return asked
        return replace(asked, voice=Voice(asked.voice.embedding))

    def _submitted(self, asked: SpeechRequest) -> SpeechStream:
        """The engine's stream; text that came meanwhile follows at once."""
        live = not (self._complete and not self._unread)
        text = self._opening.text
        stream = self._services.engine.submit(replace(asked, text=text, text_layout="streaming", live=live))
        self._stream = stream
        if live:
            for piece in self._unread:
                stream.append(piece)
            if self._complete:
                stream.append("", last=True)
        return stream

    async def _give(self, utterance: Utterance, rendering: Rendering, seat: Seat) -> None:
        start = {
            "format": self._body.response_format,
            "sample_rate": rendering.sample_rate,
            "request_id": self._record.id,
        }
        await self._listener.learn({"type": "audio.start", **start})
        async for piece in utterance.encoded(rendering):
            seat.client_blocks()
            await self._listener.hear(piece)
            seat.client_resumes()
        await self._listener.learn({"type": "audio.done", **utterance.ending})
