"""Resolves the voice of a request: a built-in speaker, a stored voice, an embedding or a blend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.client.client import EngineClient
from engine.protocol.request import EngineInfo, Voice
from server.api.requests import VoiceShare
from server.errors import ApiError, shown
from server.settings import Settings
from server.voices.embeddings import BlendError, blend, embedding_fault
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice

OPENAI_VOICES = frozenset(
    {
        "alloy",
        "ash",
        "ballad",
        "cedar",
        "coral",
        "echo",
        "fable",
        "marin",
        "nova",
        "onyx",
        "sage",
        "shimmer",
        "verse",
    }
)
"""Voice names of the OpenAI API. Unmodified OpenAI clients send them, so they are always accepted."""

_MOST_LISTED = 50


async def find_voice(
    name: str | None, info: EngineInfo, settings: Settings, param: str = "voice", owner: str | None = None
) -> str | StoredVoice | None:
    """Return the built-in speaker or the stored voice called ``name``, ignoring case.

    No name selects the default voice. So does an OpenAI name that is not mapped to an existing voice.
    Returns None when the default is requested but there is none, as with checkpoints that only clone.
    Raises ApiError 404 ``voice_not_found``, which lists the known voices, and ApiError for an unreadable stored voice.

    param: the request field that errors name.
    owner: the id of an API key. It sees its own stored voices and the shared ones.
    """
    speakers = {speaker.lower(): speaker for speaker in info.speakers}
    store = VoiceStore(settings.voices, owner)
    for meaning in _meanings(name, info, settings):
        if meaning in speakers:
            return speakers[meaning]
        if meaning in OPENAI_VOICES:
            continue
        if (stored := await asyncio.to_thread(store.get, meaning)) is not None:
            return stored
    default = settings.default_voice
    if default is None and not info.speakers and (name is None or name.strip().lower() in OPENAI_VOICES):
        return None
    raise await voice_not_found(default or "" if name is None else name, info, store, param)


def _meanings(name: str | None, info: EngineInfo, settings: Settings) -> Iterator[str]:
    """Yield candidate voice names in lower case; the first one that exists is used."""
    if name is not None:
        asked = name.strip().lower()
        yield asked
        aliases = {alias.lower(): voice.lower() for alias, voice in settings.voice_aliases.items()}
        if asked in aliases:
            yield aliases[asked]
        if asked not in OPENAI_VOICES:
            return
    if settings.default_voice is not None:
        yield settings.default_voice.lower()
    elif info.speakers:
        yield info.speakers[0].lower()


def reserved_names(info: EngineInfo, settings: Settings) -> frozenset[str]:
    """Return the lower-case names of OpenAI voices, built-in speakers and aliases: they cannot be stored or deleted."""
    speakers = {speaker.lower() for speaker in info.speakers}
    return OPENAI_VOICES | speakers | {alias.lower() for alias in settings.voice_aliases}


async def voice_not_found(name: str, info: EngineInfo, store: VoiceStore, param: str = "voice") -> ApiError:
    """Return the 404 error for an unknown voice name, with a list of the known ones."""
    known = [*info.speakers, *await asyncio.to_thread(store.names)]
    listed = ", ".join(known[:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
    message = f"There is no voice '{shown(name)}'. Voices: {listed or 'none'}."
    return ApiError(message, status=404, param=param, code="voice_not_found")


def embedding_of(values: list[float], info: EngineInfo, param: str = "speaker_embedding") -> NDArray[np.float32]:
    """Convert ``values`` from a client to a float32 speaker embedding.

    Raises ApiError when the checkpoint does not clone, the width is wrong, or the embedding is not usable.
    """
    check_cloning(info, param)
    with np.errstate(over="ignore"):
        embedding = np.asarray(values, np.float32)
    if len(embedding) != info.embedding_width:
        message = f"Invalid '{param}': an embedding of {len(embedding)} numbers; {info.embedding_width} are needed."
        raise ApiError(message, param=param)
    if (fault := embedding_fault(embedding)) is not None:
        raise ApiError(f"Invalid '{param}': the embedding cannot be used: {fault}.", param=param)
    return embedding


def voice_of(stored: StoredVoice, info: EngineInfo, *, x_vector_only: bool, param: str = "voice") -> Voice:
    """Return the engine's form of a stored voice.

    It is cloned in context if the voice and the checkpoint support that and ``x_vector_only`` is false.
    Raises ApiError when the checkpoint does not clone, or the voice was made for another checkpoint.
    """
    check_cloning(info, param)
    if stored.width != info.embedding_width:
        message = (
            f"The voice '{stored.name}' was made for another checkpoint ({stored.model}): it has {stored.width} "
            f"numbers, and this one takes {info.embedding_width}."
        )
        raise ApiError(message, param=param, code="voice_incompatible")
    return stored.voice(in_context=info.in_context and not x_vector_only)


async def blended(
    shares: Sequence[VoiceShare], engine: EngineClient, settings: Settings, owner: str | None = None
) -> NDArray[np.float32]:
    """Return the blended embedding of several voices: built-in, stored by ``owner``, shared, or given as embeddings.

    Raises ApiError or EngineError.
    """
    check_cloning(engine.info, "voices")
    embeddings = [await _embedding_of_share(share, engine, settings, owner) for share in shares]
    try:
        embedding = blend(embeddings, [share.weight for share in shares])
    except BlendError as error:
        raise ApiError(f"Invalid 'voices': {error}.", param="voices") from None
    if (fault := embedding_fault(embedding)) is not None:
        raise ApiError(f"Invalid 'voices': their blend cannot be used: {fault}.", param="voices")
    return embedding


def check_cloning(info: EngineInfo, param: str) -> None:
    """Raise ApiError when the checkpoint does not support voice cloning."""
    if "Base" not in info.tasks:
        message = f"Not supported '{param}': this checkpoint does {', '.join(info.tasks)} and clones no voice."
        raise ApiError(message, param=param, code="unsupported_task")


async def _embedding_of_share(
    share: VoiceShare, engine: EngineClient, settings: Settings, owner: str | None
) -> NDArray[np.float32]:
    if share.speaker_embedding is not None:
        return embedding_of(share.speaker_embedding, engine.info, "voices")
    found = await find_voice(share.voice, engine.info, settings, "voices", owner)
    if isinstance(found, StoredVoice):
        return voice_of(found, engine.info, x_vector_only=True, param="voices").embedding
    if found is None:
        message = f"There is no voice '{shown(share.voice or '')}'."
        raise ApiError(message, status=404, param="voices", code="voice_not_found")
    return (await engine.speaker_voice(found)).embedding
