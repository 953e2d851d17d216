"""Builds the engine request for a validated body, and submits it: selects the task and resolves the voice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from engine.protocol.engine import AudioStream
from engine.protocol.request import EngineInfo, SpeechRequest, Voice
from server.errors import ApiError
from server.limits import Limits
from server.long_text.pieces import longest_piece
from server.long_text.segments import Turn, is_one_segment, segments
from server.long_text.speech import LongSpeech, Submit
from server.references.library import ReferenceVoice
from server.references.prepare import ReferenceChanges
from server.references.transcript import Transcript, transcript_for
from server.request_models.speech import SpeechBody, TaskType, check_length
from server.served_model import ServedModel
from server.synthesis.spoken_input import text_steps
from server.telemetry.record import RequestRecord
from server.voices.blend_names import VoiceBlend
from server.voices.resolve import check_in_context, embedding_of, voice_of
from server.voices.stored_voice import StoredVoice


async def speech_request(
    body: SpeechBody, text: str, model: ServedModel, owner: str | None = None, record: RequestRecord | None = None
) -> SpeechRequest:
    """Return the engine request for ``body``. Fetches and encodes its reference recording, if it has one.

    A voice name is looked up only when the request has no voice of its own, because OpenAI's SDK always sends a name,
    even with a reference. Raises ApiError or EngineError.

    text: what will be spoken for ``body.input``.
    owner: the id of the API key whose stored voices the request may use, in addition to the shared ones.
    record: receives what was done to the recording.
    """
    named = await _named_voice(body, model, owner)
    task = choose_task(body, model.info, stored=isinstance(named, StoredVoice | VoiceBlend))
    request = SpeechRequest(
        text=text,
        speaker=named if task == "CustomVoice" and isinstance(named, str) else None,
        voice=await _voice_to_clone(body, named, model, owner, record) if task == "Base" else None,
        language=body.language.strip().lower(),
        instructions=body.instructions,
        text_layout=body.text_layout,
        sampling=body.sampling,
        realtime=body.stream,
    )
    _check_split(body, request, model.limits)
    return request


def submit(turns: Sequence[Turn], body: SpeechBody, info: EngineInfo, submit_one: Submit) -> AudioStream:
    """Submit ``turns`` as one utterance or in segments, according to ``body.split``. Raises EngineUnavailable.

    submit_one: submits one utterance, ``Engine.submit`` or ``Guard.submit``.
    """
    longest = longest_piece(info)
    if is_one_segment(turns, body.split, longest):
        return submit_one(turns[0].request)
    return LongSpeech(submit_one, segments(turns, body.split, longest))


def choose_task(body: SpeechBody, info: EngineInfo, *, stored: bool) -> TaskType:
    """Return the task of ``body``: its ``task_type``, or the one its fields imply. Raises ApiError.

    stored: whether ``body`` names a stored voice or a blend.
    """
    sources = body.voice_sources
    source = sources[0] if sources else "voice" if stored else "speaker_embedding"
    clones = stored or bool(sources)
    task = body.task_type or _implied_task(clones or _wants_clone(body), info)
    if clones and task != "Base":
        raise ApiError(f"task_type {task} cannot be combined with {source}; omit one of them", param="task_type")
    if task not in info.tasks:
        param = "task_type" if body.task_type else source
        message = f"{param} needs the task {task}; this model supports only {', '.join(info.tasks)}"
        raise ApiError(message, param=param, code="unsupported_task")
    if task == "Base" and not clones:
        message = "a voice to clone is required: give ref_audio, speaker_embedding, voices, or a stored voice as voice"
        raise ApiError(message, param="ref_audio", code="missing_required_parameter")
    return task


def task_of(request: SpeechRequest) -> TaskType:
    """Return the task of an engine request."""
    if request.voice is not None:
        return "Base"
    return "VoiceDesign" if request.speaker is None else "CustomVoice"


def designs_voice(body: SpeechBody, info: EngineInfo) -> bool:
    """Return whether ``body``, which brings no voice of its own, asks for voice design."""
    return (body.task_type or _implied_task(_wants_clone(body), info)) == "VoiceDesign"


def _wants_clone(body: SpeechBody) -> bool:
    """Return whether ``body`` asks for a clone, even if it brings no voice. A named voice may be a built-in one."""
    return body.x_vector_only_mode and body.voice is None


def _implied_task(clones: bool, info: EngineInfo) -> TaskType:
    if clones:
        return "Base"
    if "CustomVoice" in info.tasks:
        return "CustomVoice"
    return "VoiceDesign" if "VoiceDesign" in info.tasks else "Base"


async def _named_voice(
    body: SpeechBody, model: ServedModel, owner: str | None
) -> str | StoredVoice | VoiceBlend | None:
    if body.voice_sources or designs_voice(body, model.info):
        return None
    return await model.voices.find(body.voice, owner)


async def _voice_to_clone(
    body: SpeechBody,
    named: str | StoredVoice | VoiceBlend | None,
    model: ServedModel,
    owner: str | None,
    record: RequestRecord | None,
) -> Voice:
    if isinstance(named, StoredVoice):
        voice = voice_of(named, model.info, x_vector_only=body.x_vector_only_mode)
        cloned = await _with_spoken_transcript(voice, body, model)
    elif isinstance(named, VoiceBlend):
        return Voice(await model.voices.blended(named.shares, owner, "voice"))
    elif body.voices is not None:
        return Voice(await model.voices.blended(body.voices, owner))
    elif body.ref_audio is None:
        return Voice(embedding_of(body.speaker_embedding or [], model.info))
    else:
        transcript = None
        if body.ref_text is not None and not body.x_vector_only_mode:
            check_in_context(model.info)
            transcript = await _transcript(body.ref_text, body, model)
        cloned = await model.references.voice(body.ref_audio, transcript)
    if record is not None:
        record.reference = str(cloned.changes) or None
    return cloned.voice


async def _with_spoken_transcript(voice: Voice, body: SpeechBody, model: ServedModel) -> ReferenceVoice:
    """Return a stored voice with its transcript as it is spoken. Voices keep the transcript as it was given."""
    if voice.transcript is None:
        return ReferenceVoice(voice, ReferenceChanges())
    transcript = await _transcript(voice.transcript, body, model)
    changes = ReferenceChanges(stop_added=transcript.stop_added)
    return ReferenceVoice(replace(voice, transcript=transcript.text), changes)


async def _transcript(text: str, body: SpeechBody, model: ServedModel) -> Transcript:
    """Return a transcript as it is spoken. It goes through the same steps as the input."""
    steps = text_steps(body.normalize, model.info, model.text)
    return await asyncio.to_thread(transcript_for, text, model.info, steps)


def _check_split(body: SpeechBody, request: SpeechRequest, limits: Limits) -> None:
    """Raise ApiError for a split that would not sound like one voice."""
    if task_of(request) != "VoiceDesign":
        return
    if body.split == "sentence":
        message = (
            "split 'sentence' is not supported with voice design, which would make another voice for each sentence: "
            "design a voice in one request, and clone it in the next"
        )
        raise ApiError(message, param="split", code="not_supported")
    check_length("input", body.input, limits.max_input_chars)
