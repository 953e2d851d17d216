"""Starts synthesis: turns a validated body into an utterance that has its first audio."""

from __future__ import annotations

from contextlib import ExitStack

from engine.protocol.request import SpeechRequest
from server.api.requests import SpeechBody
from server.audio.encoders import FORMATS
from server.audio.pipeline import Rendering
from server.long_text.splitting import check_split, submitted
from server.services import Services
from server.synthesis.admission import Seat
from server.synthesis.deadlines import first_audio_deadline
from server.synthesis.engine_request import speech_request, task_of
from server.synthesis.utterance import Utterance
from server.telemetry.record import Playback, RequestRecord


async def opened(body: SpeechBody, services: Services, record: RequestRecord, held: ExitStack, seat: Seat) -> Utterance:
    """Start synthesis and return the utterance at its first audio; ``held`` closes it.

    An invalid request fails before it waits for its turn. Raises ApiError; 504 when the first audio takes longer than
    ``limits.first_sound_seconds``.
    """
    settings = services.settings
    async with first_audio_deadline(settings.limits.first_sound_seconds):
        asked = await speech_request(body, services.engine, settings, services.references, record.owner)
        check_split(body, asked)
        describe(record, body, asked)
        record.characters = len(body.input)
        record.playback = Playback() if body.stream else None
        await seat.turn()
        stream = submitted(body, asked, services.engine)
        utterance = Utterance(stream, record, seat, trim=settings.trim_leading_silence)
        held.callback(utterance.close)
        await utterance.open()
    return utterance


def rendering_of(body: SpeechBody, services: Services, held: ExitStack) -> Rendering:
    """Return the encoder of the response's audio file; ``held`` closes it."""
    rendering = Rendering(
        FORMATS[body.response_format],
        services.audio_threads,
        speed=body.speed,
        rate=body.sample_rate,
        streaming=body.stream,
    )
    held.callback(rendering.close)
    return rendering


def describe(record: RequestRecord, body: SpeechBody, asked: SpeechRequest) -> None:
    """Record the task, voice and speed, for the log and the metrics."""
    brought = (body.ref_audio, body.speaker_embedding, body.voices)
    named = None if any(each is not None for each in brought) else body.voice
    record.task, record.voice, record.speed = task_of(asked), asked.speaker or named, body.speed
