"""Resolves the voice of a request: a built-in speaker, a stored voice, an embedding or a blend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.protocol.engine import Engine
from engine.protocol.request import EngineInfo, Voice
from server.errors import ApiError, shown
from server.model_settings import ModelSettings
from server.request_models.voices import VoiceShare
from server.settings import Settings
from server.voices.blend_names import VoiceBlend, parse_blend_name
from server.voices.embeddings import BlendError, blend, embedding_fault
from server.voices.names import voice_id
from server.voices.object_cache import open_bucket
from server.voices.object_store import ObjectVoiceStore
from server.voices.storage_threads import StorageThreads, ThreadedVoices
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice
from server.voices.voice_storage import VoiceStorage

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

_MAX_LISTED = 50
"""Maximum number of voice names in an error message."""


class ModelVoices:
    """The voices of one model: the speakers of its checkpoint, the stored voices, and the names that select them.

    Methods take ``owner``, the id of an API key. It sees its own stored voices and the shared ones.

    threads: run the calls of the storage.
    several_keys: returns whether keys of several owners are valid. Each owner then has its own voices and a share of
    the places, and cannot change a voice that others may use.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        model: ModelSettings,
        threads: StorageThreads,
        *,
        several_keys: Callable[[], bool],
    ) -> None:
        self._engine, self._threads = engine, threads
        self._settings = settings.voices
        self._several_keys = several_keys
        self._key_share = settings.limits.client_share
        self._default = None if model.default_voice is None else model.default_voice.lower()
        self._aliases = {alias.lower(): voice.lower() for alias, voice in model.voice_aliases.items()}

    def store(self, owner: str | None) -> ThreadedVoices:
        """Return the store of the voices that ``owner`` sees."""
        several = self._several_keys()
        share = self._key_share if several else None
        storage: VoiceStorage
        if self._settings.url is None:
            storage = VoiceStore(self._settings, owner, share, protect_shared=several)
        else:
            objects = open_bucket(self._settings.url)
            storage = ObjectVoiceStore(objects, self._settings, owner, share, protect_shared=several)
        return ThreadedVoices(storage, self._threads)

    def speaker(self, name: str) -> str | None:
        """Return the checkpoint's spelling of a built-in speaker, or None. Ignores case."""
        return next((speaker for speaker in self._engine.info.speakers if speaker.lower() == name.lower()), None)

    async def find(
        self, name: str | None, owner: str | None, param: str = "voice"
    ) -> str | StoredVoice | VoiceBlend | None:
        """Return the built-in speaker or the stored voice called ``name``, ignoring case, or the blend it describes.

        No name selects the default voice. So does an OpenAI name that is not mapped to an existing voice.
        Returns None when the default is requested but there is none, as with checkpoints that only clone.
        Raises ApiError 404 ``voice_not_found``, which lists the known voices, and ApiError for an unreadable stored
        voice. param: the request field that errors name.
        """
        store = self.store(owner)
        for candidate in self._candidates(name):
            if (speaker := self.speaker(candidate)) is not None:
                return speaker
            if candidate in OPENAI_VOICES:
                continue
            if (blended := parse_blend_name(candidate, param)) is not None:
                return blended
            if (stored := await store.get(candidate)) is not None:
                return stored
        is_default = name is None or name.strip().lower() in OPENAI_VOICES
        if is_default and self._default is None and not self._engine.info.speakers:
            return None
        raise await self.not_found(self._default or "" if name is None else name, owner, param)

    def _candidates(self, name: str | None) -> Iterator[str]:
        """Yield candidate voice names in lower case; the first one that exists is used."""
        if name is not None:
            given = name.strip().lower()
            yield given
            if given in self._aliases:
                yield self._aliases[given]
            if given not in OPENAI_VOICES:
                return
        if self._default is not None:
            yield self._default
        elif self._engine.info.speakers:
            yield self._engine.info.speakers[0].lower()

    def reserved_names(self) -> frozenset[str]:
        """Return the names, in lower case, under which no voice can be stored: of OpenAI voices, speakers and aliases.

        With several keys also the default voice and the voices that aliases select: other keys use them without
        naming them, so no key may choose how they sound.
        """
        reserved = OPENAI_VOICES | {speaker.lower() for speaker in self._engine.info.speakers} | self._aliases.keys()
        if self._several_keys():
            selected = [*self._aliases.values(), *([] if self._default is None else [self._default])]
            for name in selected:
                blended = parse_blend_name(name)
                reserved |= {name} if blended is None else {share.voice or "" for share in blended.shares}
        return reserved | {voice_id(name) for name in reserved}

    async def not_found(self, name: str, owner: str | None, param: str) -> ApiError:
        """Return the 404 error for an unknown voice name, with a list of the known ones."""
        known = [*self._engine.info.speakers, *await self.store(owner).names()]
        listed = ", ".join(known[:_MAX_LISTED]) + (", ..." if len(known) > _MAX_LISTED else "")
        message = f"voice '{shown(name)}' does not exist; available voices: {listed or 'none'}"
        return ApiError(message, status=404, param=param, code="voice_not_found")

    async def blended(
        self, shares: Sequence[VoiceShare], owner: str | None, param: str = "voices"
    ) -> NDArray[np.float32]:
        """Return the blended embedding of several voices: built-in, stored, or given as embeddings.

        Raises ApiError or EngineError.
        """
        check_cloning(self._engine.info, param)
        embeddings = [await self._embedding_of_share(share, owner, param) for share in shares]
        try:
            embedding = blend(embeddings, [share.weight for share in shares])
        except BlendError as error:
            raise ApiError(f"{param} cannot be blended: {error}", param=param) from None
        if (fault := embedding_fault(embedding)) is not None:
            raise ApiError(f"the blend of voices is not a usable embedding: {fault}", param=param)
        return embedding

    async def _embedding_of_share(self, share: VoiceShare, owner: str | None, param: str) -> NDArray[np.float32]:
        if share.speaker_embedding is not None:
            return embedding_of(share.speaker_embedding, self._engine.info, param)
        found = await self.find(share.voice, owner, param)
        if isinstance(found, StoredVoice):
            return voice_of(found, self._engine.info, x_vector_only=True, param=param).embedding
        if isinstance(found, VoiceBlend):
            message = f"voice '{shown(share.voice or '')}' is a blend itself; name its voices instead"
            raise ApiError(message, param=param)
        if found is None:
            raise await self.not_found(share.voice or "", owner, param)
        return (await self._engine.speaker_voice(found)).embedding


def embedding_of(values: list[float], info: EngineInfo, param: str = "speaker_embedding") -> NDArray[np.float32]:
    """Convert ``values`` from a client to a float32 speaker embedding.

    Raises ApiError when the checkpoint does not clone, the width is wrong, or the embedding is not usable.
    """
    check_cloning(info, param)
    with np.errstate(over="ignore"):
        embedding = np.asarray(values, np.float32)
    if len(embedding) != info.embedding_width:
        message = f"{param}: an embedding must have {info.embedding_width} numbers for this model, got {len(embedding)}"
        raise ApiError(message, param=param)
    if (fault := embedding_fault(embedding)) is not None:
        raise ApiError(f"{param} is not a usable embedding: {fault}", param=param)
    return embedding


def voice_of(stored: StoredVoice, info: EngineInfo, *, x_vector_only: bool, param: str = "voice") -> Voice:
    """Return the engine's form of a stored voice.

    It is cloned in context if the voice and the checkpoint support that and ``x_vector_only`` is false.
    Raises ApiError when the checkpoint does not clone, or the voice was made for another checkpoint.
    """
    check_cloning(info, param)
    if stored.width != info.embedding_width:
        message = (
            f"voice '{stored.name}' was made for another checkpoint ({stored.model}): its embedding has {stored.width} "
            f"numbers, and this model needs {info.embedding_width}"
        )
        raise ApiError(message, param=param, code="voice_incompatible")
    return stored.voice(in_context=info.in_context and not x_vector_only)


def check_cloning(info: EngineInfo, param: str) -> None:
    """Raise ApiError when the checkpoint does not support voice cloning."""
    if "Base" not in info.tasks:
        message = f"{param} is not supported: this model does not clone voices; it supports {', '.join(info.tasks)}"
        raise ApiError(message, param=param, code="unsupported_task")


def check_in_context(info: EngineInfo) -> None:
    """Raise ApiError when the checkpoint cannot use the transcript of a reference recording."""
    if not info.in_context:
        message = "ref_text is not supported: this model clones from the speaker embedding alone; omit ref_text"
        raise ApiError(message, param="ref_text", code="unsupported_task")
