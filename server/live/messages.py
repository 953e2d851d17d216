"""The messages that a client sends on the live WebSocket, and how much text an utterance needs to start."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from server.errors import ApiError, shown, shown_value
from server.request_models.field_names import unknown_fields
from server.request_models.json_object import parse_json_object
from server.request_models.speech import SpeechBody, parse_speech
from server.settings import Settings

_JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner, which shape the letters inside a word in Indic scripts and Persian."""


class FirstWord:
    """Buffers text until its first word is complete, because the text that the talker starts with cannot change."""

    def __init__(self) -> None:
        self.text = ""
        self._in_word = False

    def add(self, piece: str) -> bool:
        """Append ``piece`` and return whether the utterance can start."""
        self.text += piece
        for character in piece:
            if character.isalnum():
                self._in_word = True
            elif self._in_word and not _continues_word(character):
                return True
        return False


def _continues_word(character: str) -> bool:
    """Whether a character that is neither letter nor digit continues a word, as a combining accent does."""
    return unicodedata.category(character).startswith("M") or character in _JOINERS


_NOT_LIVE = ("input", "stream", "stream_format", "split", "non_streaming_mode")
"""Speech request fields that a live session sets itself and therefore refuses."""
_PEER_FIELDS = frozenset({"stream_audio", "split_granularity"})
"""Fields that only clients of vllm-omni send."""


@dataclass(frozen=True, slots=True)
class Configure:
    """``session.config``: the fields of a speech request, except its text.

    announces_end: whether ``session.done`` follows each utterance, as clients of vllm-omni expect.
    """

    body: SpeechBody
    announces_end: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """``input.text``: more of the text."""

    piece: str


@dataclass(frozen=True, slots=True)
class Done:
    """``input.done``: the utterance's text is complete."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """``cancel``: stop the current utterance."""


@dataclass(frozen=True, slots=True)
class Close:
    """``session.close``: end the session after the current utterance."""


Message = Configure | Text | Done | Cancel | Close


def parse_message(raw: bytes, settings: Settings) -> Message:
    """Parse a message from JSON. Raises ApiError when it is invalid."""
    fields = parse_json_object(raw)
    kind = fields.pop("type", None)
    match kind:
        case "session.config":
            return Configure(_speech_body(fields, settings), announces_end=not _PEER_FIELDS.isdisjoint(fields))
        case "input.text":
            return Text(_text(fields))
        case "input.done":
            _refuse_fields(fields)
            return Done()
        case "cancel":
            _refuse_fields(fields)
            return Cancel()
        case "session.close":
            _refuse_fields(fields)
            return Close()
    message = f"type must be session.config, input.text, input.done, cancel or session.close, got {shown_value(kind)}"
    raise ApiError(message, param="type")


def _speech_body(fields: dict[str, Any], settings: Settings) -> SpeechBody:
    refused = next((name for name in _NOT_LIVE if fields.get(name) not in (None, "")), None)
    if refused is not None:
        message = f"unknown parameter '{refused}': a live session does not accept it"
        raise ApiError(message, param=refused, code="unknown_parameter")
    return parse_speech({**fields, "input": "-"}, settings.limits, unknown_fields(settings))


def _text(fields: dict[str, Any]) -> str:
    if "text" not in fields:
        raise ApiError("text is required", param="text", code="missing_required_parameter")
    value = fields.pop("text")
    _refuse_fields(fields)
    if not isinstance(value, str):
        raise ApiError(f"text must be a string, got {shown_value(value)}", param="text", code="invalid_type")
    return value


def _refuse_fields(fields: dict[str, Any]) -> None:
    if fields:
        name = shown(next(iter(fields)))
        raise ApiError(f"unknown parameter '{name}'", param=name, code="unknown_parameter")
