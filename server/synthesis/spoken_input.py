"""Turns the input of a request into what will be spoken, with the text front end."""

from __future__ import annotations

import asyncio
import unicodedata
from typing import Any

from engine.protocol.request import EngineInfo
from server.errors import ApiError
from server.request_models.speech import SpeechBody
from server.text.frontend import STEPS, Frontend, Spoken
from server.text.language import text_language
from server.text.live import LiveFrontend
from server.text.scripts import script_of, unreadable_letter
from server.text_settings import TextSettings

_LONG = 1000
"""Longer texts are read off the event loop: they take more than a millisecond."""
_MANY = 20
"""The same for pronunciations, which have to be compiled."""
_MAX_GROWTH = 10
_MIN_LIMIT = 4096
"""Up to this length a text may always grow."""
_SOUNDLESS = frozenset("PZCM")
"""First letters of the Unicode categories that nothing is said for: punctuation, spaces, controls, lone marks."""


async def spoken_input(body: SpeechBody, info: EngineInfo, settings: TextSettings) -> Spoken:
    """Return what will be spoken for ``body.input``, with its pauses.

    Raises ApiError 400 when nothing of the text can be spoken and ``settings.soundless`` refuses it, when it is in a
    script that the checkpoint cannot read, and when pronunciations make it too long.
    """
    if len(body.input) > _LONG or len(body.pronunciations or ()) > _MANY:
        return await asyncio.to_thread(_read, body, info, settings)
    return _read(body, info, settings)


def _read(body: SpeechBody, info: EngineInfo, settings: TextSettings) -> Spoken:
    spoken = Frontend(**_choices(body, info, settings, body.input)).spoken(body.input)
    limit = max(_MIN_LIMIT, _MAX_GROWTH * len(body.input))
    if len(spoken.text) > limit:
        message = (
            f"pronunciations and names of emoji may make input at most {_MAX_GROWTH} times as long, to {limit} "
            f"characters, got {len(spoken.text)}"
        )
        raise ApiError(message, param="input", code="string_above_max_length")
    if not has_sound(spoken.text) and settings.soundless == "refuse":
        raise nothing_to_speak("input")
    check_script(spoken.text, info, "input")
    return spoken


def live_frontend(body: SpeechBody, info: EngineInfo, settings: TextSettings) -> LiveFrontend | None:
    """Return the front end for an utterance whose text arrives in deltas; None if its text is spoken as it is.

    The language of "auto" is unknown, unless the checkpoint has one language only.
    """
    choices = _choices(body, info, settings, "")
    return LiveFrontend(**choices) if choices["steps"] or choices["pronunciations"] else None


def _choices(body: SpeechBody, info: EngineInfo, settings: TextSettings, text: str) -> dict[str, Any]:
    """Return the arguments of a front end. The request's pronunciations are last, where they take precedence."""
    own = body.pronunciations or {}
    configured = {word: respelling for word, respelling in settings.pronunciations.items() if word not in own}
    return {
        "language": text_language(body.language, text, info.readable_languages),
        "steps": text_steps(body.normalize, info, settings),
        "pronunciations": configured | own,
        "name_emoji": settings.name_emoji,
    }


def text_steps(normalize: bool | None, info: EngineInfo, settings: TextSettings) -> tuple[str, ...]:
    """Return the steps of the front end for the texts of a request. normalize: the request's field."""
    if normalize is None:
        normalize = settings.normalize
    if normalize is None:
        return info.profile.text_steps
    return STEPS if normalize else ()


def has_sound(text: str) -> bool:
    """Return whether ``text``, which the front end returned, has a letter, digit or symbol."""
    return any(unicodedata.category(character)[0] not in _SOUNDLESS for character in text)


def nothing_to_speak(param: str) -> ApiError:
    """Return the error for a text that has no sound. param: the request field that it is from."""
    message = (
        f"nothing of {param} can be spoken: it has only punctuation, markup, emoji or pauses; send at least one word"
    )
    return ApiError(message, param=param, code="nothing_to_speak")


def check_script(text: str, info: EngineInfo, param: str) -> None:
    """Raise ApiError if ``text`` has a letter of a script that no language of the checkpoint is written in.

    param: the request field that the text is from.
    """
    languages = info.readable_languages
    letter = unreadable_letter(text, languages) if languages else None
    if letter is not None:
        message = (
            f"{param} must be in a script that this model can read, got {script_of(letter)} ('{letter}'): it reads "
            f"{', '.join(languages)}"
        )
        raise ApiError(message, param=param, code="unsupported_script")
