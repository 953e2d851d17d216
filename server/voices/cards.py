"""Voices as the wire shows them: OpenAI's fields, and ours beside them."""

from __future__ import annotations

import json
from typing import Any

from engine.protocol.request import EngineInfo
from server.voices.pacing import paced
from server.voices.stored_voice import StoredVoice, VoiceHeader

_OBJECT = "audio.voice"
_SERIALIZED_AT_ONCE = 100


def built_in_card(speaker: str, created_at: int) -> dict[str, Any]:
    """One of the checkpoint's speakers."""
    return {"id": speaker, "object": _OBJECT, "name": speaker, "created_at": created_at, "type": "built_in"}


def stored_card(voice: StoredVoice | VoiceHeader, info: EngineInfo) -> dict[str, Any]:
    """A stored voice; ``compatible`` tells whether this checkpoint can speak with it."""
    return {
        "id": voice.name,
        "object": _OBJECT,
        "name": voice.name,
        "created_at": voice.created_at,
        "type": voice.origin,
        "model": voice.model,
        "embedding_width": voice.width,
        "compatible": voice.width == info.embedding_width,
        "in_context": voice.in_context,
        "ref_text": voice.transcript,
        "consent": voice.consent,
        "shared": voice.shared,
    }


def card_list(cards: list[dict[str, Any]]) -> bytes:
    """The JSON of all of them in one page, as OpenAI's lists are.

    Takes milliseconds for a thousand: call it off the event loop.
    """
    first, last = (cards[0]["id"], cards[-1]["id"]) if cards else (None, None)
    ends = json.dumps({"first_id": first, "last_id": last, "has_more": False})
    data = ", ".join(map(json.dumps, paced(cards, _SERIALIZED_AT_ONCE)))
    return f'{{"object": "list", "data": [{data}], {ends[1:]}'.encode()


def deleted_card(name: str) -> dict[str, Any]:
    """What is left of a deleted voice."""
    return {"id": name, "object": "audio.voice.deleted", "deleted": True}


def embedding_card(embedding: list[float], model: str) -> dict[str, Any]:
    """An embedding for the speech request's field of that name."""
    return {"object": "audio.voice.embedding", "model": model, "speaker_embedding": embedding}
