"""Blends of voices that are written as a name, as in Kokoro-FastAPI: ``ava+emma``, ``ava(2)+emma(1)``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from server.errors import ApiError, shown
from server.request_models.voices import VoiceShare
from server.voices.names import PLUS

_PART = re.compile(r"(?P<name>.*?)(?:\(\s*(?P<weight>[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*\))?", re.DOTALL)
_MAX_PARTS = 64


@dataclass(frozen=True, slots=True)
class VoiceBlend:
    """A blend of voices by name."""

    shares: tuple[VoiceShare, ...]


def parse_blend_name(name: str, param: str = "voice") -> VoiceBlend | None:
    """Return the blend that ``name`` describes, such as ``ava+emma`` or ``ava(2)+emma(1)``; None for a plain name.

    Raises ApiError for an invalid blend. param: the request field that errors name.
    """
    if PLUS not in name:
        return None
    parts = [_PART.fullmatch(part.strip()) for part in name.split(PLUS)]
    shares = tuple(
        VoiceShare(voice=part["name"].strip(), weight=float(part["weight"] or 1))
        for part in parts
        if part is not None and part["name"].strip()
    )
    if len(shares) != len(parts) or len(shares) > _MAX_PARTS:
        message = (
            f"a blend of voices must have 2 to {_MAX_PARTS} names with '+' between them, and may have weights in "
            f"brackets, such as ava(2)+emma(1), got '{shown(name)}'"
        )
        raise ApiError(message, param=param)
    return VoiceBlend(shares)
