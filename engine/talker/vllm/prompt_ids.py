"""Prompt ids and cache salts for vLLM's prefix cache: prompts share a prefix exactly where both are equal."""

from __future__ import annotations

import hashlib

from engine.checkpoint.architecture import TalkerArchitecture
from engine.prompt.builder import NO_TOKEN, Prompt


def prompt_ids(prompt: Prompt, architecture: TalkerArchitecture) -> list[int]:
    """Return one id per prompt row, unique for each pair of text id and codec id.

    All ids lie above the talker's vocabulary. vLLM uses the ids of the vocabulary for frames, so a prompt row never
    looks like a frame. The published vocabularies give 470 million pairs, which fit into vLLM's 31-bit ids.
    """
    codec_ids = architecture.vocab - NO_TOKEN
    pairs = (prompt.text - NO_TOKEN) * codec_ids + (prompt.codec - NO_TOKEN)
    return [int(pair) for pair in architecture.vocab + pairs]


def voice_salt(prompt: Prompt) -> str | None:
    """Return a cache salt for the cloned voice, which the row ids do not contain; None without a cloned voice."""
    if prompt.embedding is None:
        return None
    digest = hashlib.sha256(prompt.embedding.tobytes())
    if prompt.codes is not None:
        digest.update(prompt.codes.tobytes())
    return digest.hexdigest()
