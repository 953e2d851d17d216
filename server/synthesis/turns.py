"""Turns the input of a request into what each of its speakers says, and how its audio begins."""

from __future__ import annotations

from collections.abc import Sequence

from engine.protocol.request import EngineInfo, SpeechRequest
from server.audio.onset import AFTER_REFERENCE, AS_MADE, TRIMMED, Onset
from server.errors import ApiError, shown
from server.long_text.pieces import has_words
from server.long_text.segments import Turn
from server.request_models.speech import SpeechBody
from server.request_models.turns import errors_of_turn
from server.served_model import ServedModel
from server.settings import Settings
from server.synthesis.engine_request import speech_request, task_of
from server.synthesis.spoken_input import has_sound, nothing_to_speak, spoken_input
from server.telemetry.record import RequestRecord
from server.text.frontend import Spoken

MAX_SILENCE = 300.0
"""Maximum seconds of requested pauses in one request."""


async def turns_of(
    body: SpeechBody, model: ServedModel, record: RequestRecord | None = None
) -> tuple[list[Turn], Spoken]:
    """Return the turns of ``body``, which is one turn unless its ``input`` is a list, and all that will be spoken.

    Raises ApiError or EngineError. record: names the owner of the voices, and is told what was done to a recording.
    """
    owner = None if record is None else record.owner
    if not body.has_turns:
        spoken = await spoken_input(body, model.info, model.text)
        turns = [Turn(await speech_request(body, spoken.text, model, owner, record), spoken.pauses)]
    else:
        turns, parts = [], []
        for index, each in enumerate(body.turns):
            with errors_of_turn(index):
                part = await spoken_input(each, model.info, model.text)
                if not has_sound(part.text):
                    raise nothing_to_speak("input")
                request = await speech_request(each, part.text, model, owner, record)
                _check_turn(request, model.info)
            parts.append(part)
            turns.append(Turn(request, part.pauses))
        spoken = _together(parts)
    check_silence(sum(pause.seconds for turn in turns for pause in turn.pauses), "input")
    return turns, spoken


def _together(parts: Sequence[Spoken]) -> Spoken:
    changed = dict.fromkeys(step for part in parts for step in part.changed)
    return Spoken("\n\n".join(part.text for part in parts), tuple(changed))


def check_silence(seconds: float, param: str) -> None:
    """Raise ApiError if the requested pauses of a text are ``seconds`` long together, which is too long."""
    if seconds > MAX_SILENCE:
        message = f"the pauses of {param} must be at most {MAX_SILENCE:g} s together, got {seconds:g} s"
        raise ApiError(message, param=param, code="pauses_too_long")


def _check_turn(request: SpeechRequest, info: EngineInfo) -> None:
    """Raise ApiError for what the engine would refuse only after it has spoken the turns before."""
    if task_of(request) == "VoiceDesign":
        message = "a list of turns is not supported with voice design, which would make another voice for each turn"
        raise ApiError(message, param="input", code="not_supported")
    if request.language != "auto" and request.language not in map(str.lower, info.languages):
        names = ", ".join(["auto", *info.languages])
        message = f"language must be one of {names}, got '{shown(request.language)}'"
        raise ApiError(message, param="language")


def onset_of(turn: Turn, settings: Settings) -> Onset:
    """Return how the audio of a request begins. turn: its first turn."""
    if settings.trim_leading_silence:
        return TRIMMED
    voice, text = turn.request.voice, turn.request.text
    in_context = voice is not None and voice.codes is not None
    begins_with_pause = any(not has_words(text[: pause.position]) for pause in turn.pauses)
    return AFTER_REFERENCE if in_context and not begins_with_pause else AS_MADE
