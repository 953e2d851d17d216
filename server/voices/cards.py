"""Voices as JSON objects of the API: OpenAI's fields and Sonant's additional ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engine.protocol.request import EngineInfo
from server.voices.pacing import paced
from server.voices.stored_voice import StoredVoice, VoiceHeader

_OBJECT = "audio.voice"
_CARDS_PER_PAUSE = 100


def built_in_card(speaker: str, created_at: int, models: Sequence[str]) -> dict[str, Any]:
    """Return the API object of a built-in speaker of a checkpoint. models: the names of the models that have it."""
    return {
        "id": speaker,
        "object": _OBJECT,
        "name": speaker,
        "created_at": created_at,
        "type": "built_in",
        "models": [*models],
    }


def stored_card(voice: StoredVoice | VoiceHeader, info: EngineInfo, models: Sequence[str]) -> dict[str, Any]:
    """Return the API object of a stored voice. ``compatible`` says whether this checkpoint can use it.

    models: the names of the models that can.
    """
    return {
        "id": voice.name,
        "object": _OBJECT,
        "name": voice.display_name or voice.name,
        "created_at": voice.created_at,
        "type": voice.origin,
        "model": voice.model,
        "embedding_width": voice.width,
        "compatible": voice.width == info.embedding_width,
        "models": [*models],
        "in_context": voice.in_context,
        "ref_text": voice.transcript,
        "consent": voice.consent,
        "shared": voice.shared,
    }


def without_private_fields(card: dict[str, Any]) -> dict[str, Any]:
    """Return ``card`` as clients without an API key see it: without the transcript and the consent id."""
    return {**card, "ref_text": None, "consent": None}


def card_list(cards: list[dict[str, Any]]) -> bytes:
    """Return all ``cards`` as the JSON of a one-page list in OpenAI's format.

    Takes several milliseconds for a thousand cards: call it off the event loop.
    """
    first, last = (cards[0]["id"], cards[-1]["id"]) if cards else (None, None)
    ends = json.dumps({"first_id": first, "last_id": last, "has_more": False})
    data = ", ".join(map(json.dumps, paced(cards, _CARDS_PER_PAUSE)))
    voices = json.dumps([{"id": card["id"], "name": card["name"]} for card in cards])
    return f'{{"object": "list", "data": [{data}], "voices": {voices}, {ends[1:]}'.encode()


def deleted_card(name: str) -> dict[str, Any]:
    """Return the API object that confirms the deletion of a voice."""
    return {"id": name, "object": "audio.voice.deleted", "deleted": True}


def embedding_card(embedding: list[float], model: str) -> dict[str, Any]:
    """Return the API object of an embedding, for the ``speaker_embedding`` field of a speech request."""
    return {"object": "audio.voice.embedding", "model": model, "speaker_embedding": embedding}
