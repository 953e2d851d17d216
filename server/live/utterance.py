"""One live utterance: text goes to the engine as it arrives, audio to the client as it is generated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

from engine.client.stream import SpeechStream
from engine.protocol.request import SAMPLE_RATE, AudioChunk, Completion, FinishReason, SpeechRequest, Voice
from server.api.requests import SpeechBody
from server.audio.pipeline import Rendering
from server.errors import ApiError
from server.live.messages import Opening
from server.services import Services
from server.synthesis.admission import Seat
from server.synthesis.deadlines import first_audio_deadline
from server.synthesis.engine_request import speech_request
from server.synthesis.start import describe, rendering_of
from server.synthesis.utterance import Speech, Utterance
from server.synthesis.visible_text import has_visible_text
from server.telemetry.record import RequestRecord


class LiveStream:
    """Yields the chunks of ``speech``. While the text is incomplete, waits for chunks count against the client.

    The server does not know when the talker has consumed all text. But each text token produces one frame of audio, so
    an engine that keeps up with playback delivers a chunk within the chunk's playback time. Only the part of a wait
    beyond that time counts against the client. This is lenient: it tolerates text at half the pace of speech, and an
    engine at half the speed of playback.
    """

    def __init__(self, speech: Speech, seat: Seat, *, complete: bool) -> None:
        """complete: whether all text has been sent to the engine already."""
        self._speech, self._seat, self._complete = speech, seat, complete
        self._waiting = False

    @property
    def completion(self) -> Completion:
        """Finish reason and token counts; available once all chunks are consumed."""
        return self._speech.completion

    def finish(self) -> None:
        """Record that all text has been sent: further waits do not count against the client."""
        self._complete = True
        self._text_came()

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        chunks = aiter(self._speech)
        while True:
            if not self._complete:
                self._waiting = True
                self._seat.client_blocks()
            chunk = await anext(chunks, None)
            self._text_came(0.0 if chunk is None else len(chunk.samples) / SAMPLE_RATE)
            if chunk is None:
                return
            yield chunk

    def cancel(self) -> None:
        """Abort the utterance. No effect once it has ended."""
        self._speech.cancel()

    def _text_came(self, chunk_seconds: float = 0.0) -> None:
        if self._waiting:
            self._waiting = False
            self._seat.client_resumes(excused=chunk_seconds)


class Listener(Protocol):
    """The client that receives an utterance. Both methods raise when it disconnected or stopped reading."""

    async def hear(self, audio: bytes) -> None:
        """Send a piece of audio."""

    async def learn(self, fields: dict[str, Any]) -> None:
        """Send an event."""


class LiveUtterance:
    """Synthesizes speech while text is added. It ends when ``task`` is done; ``task`` raises its failures."""

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
        """Whether its text is complete."""
        return self._complete

    def add(self, piece: str) -> None:
        """Append text. Raises ApiError when the text exceeds ``limits.max_input_chars``."""
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
        """Mark the text as complete. Raises ApiError when it has no visible character."""
        if not has_visible_text(self._opening.text):
            raise ApiError("There is nothing to say.", param="text")
        self._complete = True
        if self._live_stream is not None:
            self._live_stream.finish()
        if self._begun.is_set() and self._stream is not None:
            self._stream.append("", last=True)
        self._begin()

    async def cancel(self, reason: BaseException | None = None) -> None:
        """Stop. No audio is sent after this returns. reason: the error that ended it; None if the client cancelled."""
        self._reason = reason
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _begin(self) -> None:
        """Start synthesis, and the record's clock: until now the utterance waited for the client's text."""
        if not self._begun.is_set():
            self._record.started = time.monotonic()
            self._begun.set()

    def _over(self, task: asyncio.Task[None]) -> None:
        """Record the outcome. A done callback, because the task can be cancelled before its first step."""
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
        """Return the utterance at its first audio; ``held`` closes it. Raises ApiError 504 after the deadline."""
        settings = self._services.settings
        async with first_audio_deadline(settings.limits.first_sound_seconds):
            asked = await self._asked()
            await seat.turn()
            self._live_stream = LiveStream(self._submitted(asked), seat, complete=self._complete)
            utterance = Utterance(self._live_stream, self._record, seat, trim=settings.trim_leading_silence)
            held.callback(utterance.close)
            await utterance.open()
        return utterance

    async def _asked(self) -> SpeechRequest:
        """Return the engine request, without its text.

        A clone uses the speaker embedding only: in-context cloning needs text that has not arrived yet.
        """
        services = self._services
        engine, owner = services.engine, self._record.owner
        asked = await speech_request(self._body, engine, services.settings, services.references, owner)
        describe(self._record, self._body, asked)
        if asked.voice is None:
            return asked
        return replace(asked, voice=Voice(asked.voice.embedding))

    def _submitted(self, asked: SpeechRequest) -> SpeechStream:
        """Submit the request and return the engine's stream. Text that has arrived since is appended at once."""
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
