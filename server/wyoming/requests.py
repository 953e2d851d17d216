"""Turns Wyoming events into speech requests."""

from __future__ import annotations

from typing import Any

from wyoming.event import Event

from server.errors import ApiError, shown_value
from server.limits import Limits
from server.request_models.speech import SpeechBody, parse_speech

_FORMATS = frozenset({None, "text", "ssml"})


def complete_text_body(event: Event, limits: Limits) -> SpeechBody:
    """Return the speech request for a ``synthesize`` event. Raises ApiError."""
    return _body(event, text_of(event), limits)


def live_text_body(event: Event, limits: Limits) -> SpeechBody:
    """Return the speech request for a ``synthesize-start`` event, whose text follows. Raises ApiError."""
    return _body(event, "-", limits)


def text_of(event: Event) -> str:
    """Return the text of an event. Raises ApiError."""
    text = event.data.get("text")
    if not isinstance(text, str):
        raise ApiError(f"text must be a string, got {shown_value(text)}", param="text")
    return text


def _body(event: Event, text: str, limits: Limits) -> SpeechBody:
    kind = event.data.get("text_format")
    if kind not in _FORMATS:  # the text front end recognizes SSML by itself
        raise ApiError(f"text_format must be text or ssml, got {shown_value(kind)}", param="text_format")
    fields = {"input": text, "response_format": "pcm", **_voice_fields(event.data.get("voice") or {})}
    return parse_speech(fields, limits)


def _voice_fields(voice: Any) -> dict[str, str]:
    """Return the fields ``voice`` and ``language`` for the event's voice. Its name overrides its language."""
    if not isinstance(voice, dict):
        raise ApiError(f"voice must be an object, got {shown_value(voice)}", param="voice")
    name, language, speaker = (voice.get(key) for key in ("name", "language", "speaker"))
    for key, value in (("name", name), ("language", language)):
        if value is not None and not isinstance(value, str):
            raise ApiError(f"voice.{key} must be a string, got {shown_value(value)}", param="voice")
    if speaker is not None:
        message = (
            f"voice.speaker is not supported, because voices have no speakers; omit it, got {shown_value(speaker)}"
        )
        raise ApiError(message, param="voice")
    if name is not None:
        return {"voice": name}
    return {} if language is None else {"language": language}
