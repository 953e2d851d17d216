"""Which of the checkpoint's speakers a voice name means."""

from __future__ import annotations

from engine.request import EngineInfo
from server.errors import ApiError, shown
from server.settings import Settings

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


def find_speaker(name: str | None, info: EngineInfo, settings: Settings) -> str:
    """The speaker that ``name`` means, in any case of letters; None means the default.

    One of OpenAI's names that is mapped to no speaker of this checkpoint means the default too.
    Raises ApiError 404 ``voice_not_found`` with the names there are.
    """
    speakers = {speaker.lower(): speaker for speaker in info.speakers}
    default = settings.default_voice or info.speakers[0]
    name = default if name is None else name
    asked = name.strip().lower()
    if asked in speakers:
        return speakers[asked]
    aliases = {alias.lower(): speaker.lower() for alias, speaker in settings.voice_aliases.items()}
    if aliases.get(asked) in speakers:
        return speakers[aliases[asked]]
    if asked in OPENAI_VOICES and default.lower() in speakers:
        return speakers[default.lower()]
    raise ApiError(
        f"There is no voice '{shown(name)}'. Voices: {', '.join(info.speakers)}.",
        status=404,
        param="voice",
        code="voice_not_found",
    )
