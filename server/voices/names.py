"""Whose voice a name means."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from engine.request import EngineInfo
from server.errors import ApiError, shown
from server.settings import Settings
from server.voices.store import VoiceStore
from server.voices.stored import StoredVoice

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
"""What stock OpenAI clients ask for; every server that wants to serve them must know these names."""

_MOST_LISTED = 50


async def find_voice(
    name: str | None, info: EngineInfo, settings: Settings, param: str = "voice", owner: str | None = None
) -> str | StoredVoice | None:
    """The built-in speaker, or the stored voice, that ``name`` means, in any case of letters.

    Of stored voices ``owner``, the id of a key, has its own and the shared ones.
    No name means the default, and so does one of OpenAI's names that is mapped to no voice there is. None: the
    default is asked for where there is none, as with checkpoints that only clone. Raises ApiError: 404
    ``voice_not_found`` with the names there are and ``param``; a stored voice that cannot be read.
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
    """Names of voices, in small letters, of which the first that exists is meant."""
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
    """Names that mean a voice without being stored, in small letters: none of them can be stored or deleted."""
    speakers = {speaker.lower() for speaker in info.speakers}
    return OPENAI_VOICES | speakers | {alias.lower() for alias in settings.voice_aliases}


async def voice_not_found(name: str, info: EngineInfo, store: VoiceStore, param: str = "voice") -> ApiError:
    """The answer to a name that no voice has."""
    known = [*info.speakers, *await asyncio.to_thread(store.names)]
    listed = ", ".join(known[:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
    message = f"There is no voice '{shown(name)}'. Voices: {listed or 'none'}."
    return ApiError(message, status=404, param=param, code="voice_not_found")
