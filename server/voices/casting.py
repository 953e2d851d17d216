"""From what a request names or brings to the voice that the engine speaks with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.client import EngineClient
from engine.request import EngineInfo, Voice
from server.errors import ApiError, shown
from server.schemas import VoiceShare
from server.settings import Settings
from server.voices.blending import BlendError, blend
from server.voices.embeddings import embedding_fault
from server.voices.names import find_voice
from server.voices.stored import StoredVoice


def embedding_of(values: list[float], info: EngineInfo, param: str = "speaker_embedding") -> NDArray[np.float32]:
    """A client's numbers as a speaker embedding of this checkpoint. Raises ApiError."""
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
    """A stored voice as this checkpoint speaks with it: in context where both it and the checkpoint can.

    Raises ApiError where it was made for another checkpoint.
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
    """Return the embedding between several voices, those of ``owner`` and the shared ones.

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
    """Raises ApiError where the checkpoint speaks with its own voices alone."""
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
