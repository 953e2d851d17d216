"""Prompts as vLLM's prefix cache compares them: two begin alike exactly where their ids and salts do."""

from __future__ import annotations

import hashlib

from engine.checkpoint.architecture import TalkerArchitecture
from engine.prompt.builder import NOTHING, Prompt


def prompt_ids(prompt: Prompt, architecture: TalkerArchitecture) -> list[int]:
    """A number for each prompt row, different for different pairs of text and codec id.

    All are above the talker's vocabulary, whose ids stand for frames there: no prompt looks like a frame. Published
    vocabularies make 470 million pairs, and vLLM's ids have 31 bits.
    """
    codec_ids = architecture.vocab - NOTHING
    pairs = (prompt.text - NOTHING) * codec_ids + (prompt.codec - NOTHING)
    return [int(pair) for pair in architecture.vocab + pairs]


def voice_salt(prompt: Prompt) -> str | None:
    """What tells prompts apart that differ in their voice, which is in no row's id. None for one without a clone."""
    if prompt.embedding is None:
        return None
    digest = hashlib.sha256(prompt.embedding.tobytes())
    if prompt.codes is not None:
        digest.update(prompt.codes.tobytes())
    return digest.hexdigest()
