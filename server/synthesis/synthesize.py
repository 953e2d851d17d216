"""Starts synthesis: turns a validated body into an utterance that has its first audio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace

from engine.protocol.engine import AudioStream
from engine.protocol.request import SpeechRequest, Voice
from server.audio.encoders import FORMATS
from server.audio.pipeline import AudioPipeline
from server.guards.guard import guarded
from server.long_text.segments import Turn
from server.request_models.speech import SpeechBody
from server.served_model import ServedModel
from server.services import Services
from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.engine_request import speech_request, submit, task_of
from server.synthesis.first_audio_deadline import FirstAudioDeadline
from server.synthesis.silence import SilentStream
from server.synthesis.spoken_input import has_sound
from server.synthesis.turns import onset_of, turns_of
from server.synthesis.utterance import Utterance
from server.synthesis.word_timing import TimedStream, WordTiming
from server.telemetry.record import Playback, RequestRecord


@asynccontextmanager
async def start_synthesis(
    body: SpeechBody,
    model: ServedModel,
    services: Services,
    record: RequestRecord,
    ticket: AdmissionTicket,
    submit_live: Callable[[SpeechRequest], AudioStream] | None = None,
) -> AsyncIterator[Utterance]:
    """Start synthesis and yield the utterance at its first audio. Leaving the context aborts it if it has not ended.

    An invalid request, and one that no engine accepts, fails before it waits to run. Raises ApiError or EngineError;
    ApiError 504 when the first audio takes longer than ``limits.first_sound_seconds``.

    submit_live: For a live session: submits the request with the session's text instead of ``body.input``.
    """
    deadline = FirstAudioDeadline(model.limits.first_sound_seconds)
    record.model = model.name
    async with deadline.enforced():
        model.engine.check_accepting()
        if submit_live is None:
            record.characters = body.characters
            turns, spoken = await turns_of(body, model, record)
            record.set_spoken(spoken)
        else:
            body = body.model_copy(update={"ref_text": None})  # _by_x_vector would drop its codes
            request = await speech_request(body, body.input, model, record.owner, record)
            turns = [Turn(_by_x_vector(request))]
        _describe(record, body, turns)
        if submit_live is None:
            record.playback = Playback() if body.stream else None
        await ticket.wait_until_running()
    with closing(_audio_pipeline(body, services)) as pipeline:
        if submit_live is None:
            submit_one = guarded(model.engine, services.settings.guards, record, services.word_check, deadline.met)
            silent = not has_sound(turns[0].request.text)
            stream = _silence(turns[0]) if silent else submit(turns, body, model.info, submit_one)
        else:
            silent = False
            stream = submit_live(turns[0].request)
        onset = onset_of(turns[0], services.settings)
        timing = None if silent else _word_timing(body, model, services)
        record.times_words = timing is not None
        if timing is not None:
            stream = TimedStream(stream, timing, turns[0].request)
        made = Utterance(stream, pipeline, record, ticket, speed=body.speed, onset=onset, timing=timing)
        with closing(made) as utterance:
            async with deadline.enforced():
                await utterance.wait_for_first_audio()
            yield utterance


def _by_x_vector(request: SpeechRequest) -> SpeechRequest:
    """Return a live request without the codes of a stored voice: cloning in context needs the whole text."""
    return request if request.voice is None else replace(request, voice=Voice(request.voice.embedding))


def _silence(turn: Turn) -> AudioStream:
    """Return the audio of a turn that has nothing but pauses."""
    return SilentStream(sum(pause.seconds for pause in turn.pauses))


def _word_timing(body: SpeechBody, model: ServedModel, services: Services) -> WordTiming | None:
    """Return what times the words, if ``body`` wants their times."""
    if not body.timestamp_granularities:
        return None
    return WordTiming(services.aligner_threads, model.info.readable_languages, body.speed)


def _audio_pipeline(body: SpeechBody, services: Services) -> AudioPipeline:
    return AudioPipeline(
        FORMATS[body.response_format],
        services.audio_threads,
        speed=body.speed,
        rate=body.sample_rate,
        streaming=body.stream,
    )


def _describe(record: RequestRecord, body: SpeechBody, turns: Sequence[Turn]) -> None:
    """Record the task, the voice, if there is only one, the speed and the turns, for the log and the metrics."""
    record.task, record.speed = task_of(turns[0].request), body.speed
    record.turns = len(turns) if body.has_turns else None
    voices = {
        turn.request.speaker or (None if each.voice_sources else each.voice)
        for turn, each in zip(turns, body.turns, strict=True)
    }
    record.voice = voices.pop() if len(voices) == 1 else None
