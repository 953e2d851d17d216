"""One live utterance: text goes to the engine as it arrives, audio to the client as it is generated."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Protocol

from engine.protocol.engine import AudioStream
from engine.protocol.request import SAMPLE_RATE, AudioChunk, Completion, FinishReason, SpeechRequest
from server.guards.guard import checked
from server.live.live_input import LiveInput
from server.live.live_speech import LiveSpeech
from server.long_text.pieces import longest_piece
from server.long_text.spoken_piece import SpokenStream
from server.request_models.speech import SpeechBody
from server.served_model import ServedModel
from server.services import Services
from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.engine_request import designs_voice
from server.synthesis.sse import words_event
from server.synthesis.synthesize import start_synthesis
from server.synthesis.turns import check_silence
from server.synthesis.utterance import Utterance
from server.telemetry.record import RequestRecord
from server.text.frontend import Spoken


class LiveStream:
    """Yields the chunks of ``stream``. While the text is incomplete, waits for chunks count against the client.

    The server does not know when the talker has consumed all text. But each text token produces one frame of audio, so
    an engine that keeps up with playback delivers a chunk within the chunk's playback time. Only the part of a wait
    beyond that time counts against the client. This is lenient: it tolerates text at half the pace of speech, and an
    engine at half the speed of playback.
    """

    def __init__(self, stream: SpokenStream, ticket: AdmissionTicket, *, complete: bool) -> None:
        """complete: whether all text has been sent to the engine already."""
        self._stream, self._ticket, self._complete = stream, ticket, complete
        self.spoken = stream.spoken
        self._waiting = False

    @property
    def completion(self) -> Completion:
        """Finish reason and token counts; available once all chunks are consumed."""
        return self._stream.completion

    def finish(self) -> None:
        """Record that all text has been sent: further waits do not count against the client."""
        self._complete = True
        self._end_wait()

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        chunks = aiter(self._stream)
        while True:
            if not self._complete:
                self._waiting = True
                self._ticket.begin_client_wait()
            chunk = await anext(chunks, None)
            self._end_wait(0.0 if chunk is None else len(chunk.samples) / SAMPLE_RATE)
            if chunk is None:
                return
            yield chunk

    def cancel(self) -> None:
        """Abort the utterance. No-op once it has ended."""
        self._stream.cancel()

    def _end_wait(self, chunk_seconds: float = 0.0) -> None:
        if self._waiting:
            self._waiting = False
            self._ticket.end_client_wait(excused=chunk_seconds)


class Receiver(Protocol):
    """The client that receives an utterance. Both methods raise when it disconnected or stopped reading."""

    async def send_audio(self, audio: bytes) -> None:
        """Send a piece of audio."""

    async def send_event(self, fields: dict[str, Any]) -> None:
        """Send an event."""


class LiveUtterance:
    """Synthesizes speech while text is added. It ends when ``task`` is done; ``task`` raises its failures.

    number: its position in the session, from 0.
    """

    def __init__(
        self,
        body: SpeechBody,
        model: ServedModel,
        services: Services,
        session: RequestRecord,
        number: int,
        receiver: Receiver,
        client: str,
    ) -> None:
        self._body, self._model, self._services = body, model, services
        self._session, self._receiver, self._client = session, receiver, client
        self.number = number
        self._record = session.part_record(number)
        self._record.characters, self._record.speed = 0, body.speed
        self._input = LiveInput(body, model.info, model.text, model.limits.max_input_chars, self._record)
        services.outcomes.add_running(self._record)
        self._cancel_reason: BaseException | None = None
        self._can_start = asyncio.Event()
        self._complete = False
        self._silence = 0.0
        designs = not body.voice_sources and designs_voice(body, model.info)
        sentences = model.info.profile.live_text == "sentences" and self._input.is_read and not designs
        self._speech = LiveSpeech(math.inf if designs else longest_piece(model.info), sentences=sentences)
        self._live_stream: LiveStream | None = None
        services.use.begin()
        self.task = asyncio.create_task(self._synthesize())
        self.task.add_done_callback(self._record_outcome)
        self.task.add_done_callback(lambda task: services.use.end())

    @property
    def index(self) -> dict[str, int]:
        """Its number in the session, as fields of events. vllm-omni counts sentences, too; here each has one."""
        return {"utterance_index": self.number, "sentence_index": 0}

    @property
    def complete(self) -> bool:
        """Whether its text is complete."""
        return self._complete

    def add(self, piece: str) -> None:
        """Append text as the client sends it. Raises ApiError when it is too long or in an unreadable script."""
        if piece:
            self._speak(self._input.add(piece))

    def finish(self) -> None:
        """Mark the text as complete. Raises ApiError when nothing of it can be spoken."""
        self._speak(self._input.finish())
        self._complete = True
        if self._live_stream is not None:
            self._live_stream.finish()
        self._speech.finish()
        self._start()

    def _speak(self, spoken: Spoken) -> None:
        """Pass on what can be spoken now. Raises ApiError when the requested pauses are too long."""
        self._silence += sum(pause.seconds for pause in spoken.pauses)
        check_silence(self._silence, "text")
        self._speech.add(spoken)
        if self._speech.ready:
            self._start()

    async def cancel(self, reason: BaseException | None = None) -> None:
        """Stop. No audio is sent after this returns. reason: the error that ended it; None if the client cancelled."""
        self._cancel_reason = reason
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _start(self) -> None:
        """Start synthesis, and the record's clock: until now the utterance waited for the client's text."""
        if not self._can_start.is_set():
            self._record.started = time.monotonic()
            self._can_start.set()

    def _record_outcome(self, task: asyncio.Task[None]) -> None:
        """Record the outcome. A done callback, because the task can be cancelled before its first step."""
        error = self._cancel_reason if task.cancelled() else task.exception()
        self._record.set_status(error)
        if error is None and task.cancelled():
            self._record.completion = Completion(FinishReason.CANCELLED, 0, 0)
        self._session.add_part(self._record)
        self._services.observers.complete(self._record)

    async def _synthesize(self) -> None:
        await self._can_start.wait()
        usage, admission = self._services.key_usage, self._model.admission
        with await usage.request(self._record.owner), admission.ticket(self._client) as ticket, ticket.evictable():
            submit = partial(self._submit, ticket)
            async with start_synthesis(
                self._body, self._model, self._services, self._record, ticket, submit
            ) as utterance:
                await self._send(utterance, ticket)

    def _submit(self, ticket: AdmissionTicket, request: SpeechRequest) -> AudioStream:
        """Submit the request with the text so far, and return the stream of its audio."""
        submit = partial(checked, self._model.engine, self._services.settings.guards, self._record)
        self._speech.start(submit, request)
        self._live_stream = LiveStream(self._speech, ticket, complete=self._complete)
        return self._live_stream

    async def _send(self, utterance: Utterance, ticket: AdmissionTicket) -> None:
        start: dict[str, Any] = {
            **self.index,
            "format": self._body.response_format,
            "sample_rate": utterance.sample_rate,
            "channels": 1,
            "request_id": self._record.id,
        }
        if self._body.ignored:
            start["ignored_fields"] = self._body.ignored
        await self._receiver.send_event({"type": "audio.start", **start})
        async for piece in utterance.encoded():
            ticket.begin_client_wait()
            await self._receiver.send_audio(piece)
            ticket.end_client_wait()
            for words in utterance.timed_words():
                await self._receiver.send_event(words_event(words))
        async for words in utterance.remaining_words():
            await self._receiver.send_event(words_event(words))
        await self._receiver.send_event({"type": "audio.done", **self.index, **utterance.completion_fields()})
