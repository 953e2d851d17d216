"""Submits a text as one engine utterance, or split into sentences."""

from __future__ import annotations

from engine.client.client import EngineClient
from engine.protocol.request import SpeechRequest
from server.api.requests import SpeechBody
from server.errors import ApiError
from server.long_text.pieces import pieces
from server.long_text.speech import LongSpeech
from server.synthesis.engine_request import task_of
from server.synthesis.utterance import Speech


def check_split(body: SpeechBody, asked: SpeechRequest) -> None:
    """Raise ApiError for a split that would not sound like one voice."""
    if body.split != "none" and task_of(asked) == "VoiceDesign":
        message = "Not supported 'split': a designed voice is another one in each sentence. Design one, then clone it."
        raise ApiError(message, param="split", code="not_supported")


def submitted(body: SpeechBody, asked: SpeechRequest, engine: EngineClient) -> Speech:
    """Submit ``asked`` as one utterance or in pieces, according to ``body.split``. Raises EngineUnavailable."""
    if body.split == "none":
        return engine.submit(asked)
    return LongSpeech(engine, asked, pieces(asked.text, asked.language, engine.info.context))
