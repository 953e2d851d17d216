"""Builds the engine request for a validated body: selects the task and resolves the voice."""

from __future__ import annotations

from engine.client.client import EngineClient
from engine.protocol.request import EngineInfo, SpeechRequest, Voice
from server.api.requests import SpeechBody, TaskType
from server.errors import ApiError
from server.references.library import ReferenceLibrary
from server.settings import Settings
from server.voices.resolve import blended, embedding_of, find_voice, voice_of
from server.voices.stored_voice import StoredVoice


async def speech_request(
    body: SpeechBody,
    engine: EngineClient,
    settings: Settings,
    references: ReferenceLibrary,
    owner: str | None = None,
) -> SpeechRequest:
    """Return the engine request for ``body``. Fetches and encodes its reference recording, if it has one.

    A voice name is looked up only when the request has no voice of its own, because OpenAI's SDK always sends a name,
    even with a reference. Raises ApiError or EngineError.

    owner: the id of the API key whose stored voices the request may use, in addition to the shared ones.
    """
    info = engine.info
    named = await _named_voice(body, info, settings, owner)
    task = choose_task(body, info, stored=isinstance(named, StoredVoice))
    return SpeechRequest(
        text=body.input,
        speaker=named if task == "CustomVoice" and isinstance(named, str) else None,
        voice=await _clone(body, named, engine, settings, references, owner) if task == "Base" else None,
        language=body.language.strip().lower(),
        instructions=body.instructions,
        text_layout=body.text_layout,
        sampling=body.sampling,
        realtime=body.stream,
    )


async def _named_voice(
    body: SpeechBody, info: EngineInfo, settings: Settings, owner: str | None
) -> str | StoredVoice | None:
    designs = (body.task_type or _inferred(body.x_vector_only_mode, info)) == "VoiceDesign"
    if designs or _brought(body) is not None:
        return None
    return await find_voice(body.voice, info, settings, owner=owner)


def _brought(body: SpeechBody) -> str | None:
    """Return the name of the field with the request's own voice, or None."""
    names = ("ref_audio", "speaker_embedding", "voices")
    return next((name for name in names if getattr(body, name) is not None), None)


def choose_task(body: SpeechBody, info: EngineInfo, *, stored: bool) -> TaskType:
    """Return the task of ``body``: its ``task_type``, or the one its fields imply. Raises ApiError.

    stored: whether ``body`` names a stored voice.
    """
    brought = _brought(body) or ("voice" if stored else "speaker_embedding")
    clones = stored or _brought(body) is not None
    task = body.task_type or _inferred(clones or body.x_vector_only_mode, info)
    if clones and task != "Base":
        raise ApiError(f"'task_type' {task} takes no '{brought}'.", param="task_type")
    if task not in info.tasks:
        param = "task_type" if body.task_type else brought
        message = f"Not supported '{param}': this checkpoint does {', '.join(info.tasks)}, not {task}."
        raise ApiError(message, param=param, code="unsupported_task")
    if task == "Base" and not clones:
        message = "A voice to clone is needed: give 'ref_audio', 'speaker_embedding' or a stored 'voice'."
        raise ApiError(message, param="ref_audio", code="missing_required_parameter")
    return task


def task_of(asked: SpeechRequest) -> TaskType:
    """Return the task of ``asked``."""
    if asked.voice is not None:
        return "Base"
    return "VoiceDesign" if asked.speaker is None else "CustomVoice"


def _inferred(clones: bool, info: EngineInfo) -> TaskType:
    if clones:
        return "Base"
    if "CustomVoice" in info.tasks:
        return "CustomVoice"
    return "VoiceDesign" if "VoiceDesign" in info.tasks else "Base"


async def _clone(
    body: SpeechBody,
    named: str | StoredVoice | None,
    engine: EngineClient,
    settings: Settings,
    references: ReferenceLibrary,
    owner: str | None,
) -> Voice:
    if isinstance(named, StoredVoice):
        return voice_of(named, engine.info, x_vector_only=body.x_vector_only_mode)
    if body.voices is not None:
        return Voice(await blended(body.voices, engine, settings, owner))
    if body.ref_audio is None:
        return Voice(embedding_of(body.speaker_embedding or [], engine.info))
    transcript = None if body.x_vector_only_mode else body.ref_text
    if transcript is not None and not engine.info.in_context:
        message = "This checkpoint clones from the voice alone: leave 'ref_text' out."
        raise ApiError(message, param="ref_text", code="unsupported_task")
    return await references.voice(body.ref_audio, transcript)
