"""From a checked body to the engine's request: which task it is, and whose voice."""

from __future__ import annotations

import asyncio

import numpy as np

from engine.client import EngineClient
from engine.request import EngineInfo, SpeechRequest, Voice
from server.errors import ApiError
from server.references import Reference, decode_reference, read_data_url
from server.schemas import SpeechBody, TaskType
from server.settings import Limits, Settings
from server.voices import find_speaker


async def speech_request(body: SpeechBody, engine: EngineClient, settings: Settings) -> SpeechRequest:
    """What the engine is asked for ``body``; a reference recording is encoded on the way.

    Raises ApiError or EngineError. A voice name is looked up only where a built-in speaker talks:
    OpenAI's SDK always sends one, also beside a reference.
    """
    info = engine.info
    task = choose_task(body, info)
    return SpeechRequest(
        text=body.input,
        speaker=find_speaker(body.voice, info, settings) if task == "CustomVoice" else None,
        voice=await _clone(body, engine, settings) if task == "Base" else None,
        language=body.language.strip().lower(),
        instructions=body.instructions,
        text_layout=body.text_layout,
        sampling=body.sampling,
        realtime=body.stream,
    )


def choose_task(body: SpeechBody, info: EngineInfo) -> TaskType:
    """The task ``body`` asks for, by name or by what it brings. Raises ApiError."""
    brought = "ref_audio" if body.ref_audio is not None else "speaker_embedding"
    clones = body.ref_audio is not None or body.speaker_embedding is not None
    task = body.task_type or _inferred(clones or body.x_vector_only_mode, info)
    if clones and task != "Base":
        raise ApiError(f"'task_type' {task} takes no '{brought}'.", param="task_type")
    if task not in info.tasks:
        param = "task_type" if body.task_type else brought
        message = f"Not supported '{param}': this checkpoint does {', '.join(info.tasks)}, not {task}."
        raise ApiError(message, param=param, code="unsupported_task")
    if task == "Base" and not clones:
        message = "A voice to clone is needed: give 'ref_audio' or 'speaker_embedding'."
        raise ApiError(message, param="ref_audio", code="missing_required_parameter")
    return task


def _inferred(clones: bool, info: EngineInfo) -> TaskType:
    if clones:
        return "Base"
    if "CustomVoice" in info.tasks:
        return "CustomVoice"
    return "VoiceDesign" if "VoiceDesign" in info.tasks else "Base"


async def _clone(body: SpeechBody, engine: EngineClient, settings: Settings) -> Voice:
    if body.ref_audio is None:
        return _embedded_voice(body.speaker_embedding or [], engine.info)
    transcript = None if body.x_vector_only_mode else body.ref_text
    if transcript is not None and not engine.info.in_context:
        message = "This checkpoint clones from the voice alone: leave 'ref_text' out."
        raise ApiError(message, param="ref_text", code="unsupported_task")
    reference = await asyncio.to_thread(_recording, body.ref_audio, settings.limits)
    return await engine.encode_reference(
        reference.samples, reference.rate, codes=transcript is not None, transcript=transcript
    )


def _recording(url: str, limits: Limits) -> Reference:
    return decode_reference(read_data_url(url, limits), limits)


def _embedded_voice(values: list[float], info: EngineInfo) -> Voice:
    with np.errstate(over="ignore"):
        embedding = np.asarray(values, np.float32)
    if len(embedding) != info.embedding_width:
        message = f"Invalid 'speaker_embedding': {len(embedding)} numbers; {info.embedding_width} are needed."
        raise ApiError(message, param="speaker_embedding")
    if not np.isfinite(embedding).all():
        raise ApiError("Invalid 'speaker_embedding': not finite.", param="speaker_embedding")
    return Voice(embedding)
