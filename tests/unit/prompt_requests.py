"""Shortcuts to build prompts."""

from typing import Any

import numpy as np

from engine.checkpoint.folder import Checkpoint
from engine.prompt.builder import Prompt, build_prompt
from engine.protocol.request import SpeechRequest, Voice

FIVE_FRAMES = np.arange(80).reshape(5, 16)
"""Codes of a reference recording."""


def prompt_of(checkpoint: Checkpoint, **fields: Any) -> Prompt:
    """The prompt of a ``SpeechRequest`` with these fields."""
    return build_prompt(SpeechRequest(**fields), checkpoint.model, checkpoint.tokenizer)


def voice(width: int = 64, codes: np.ndarray | None = None, transcript: str | None = None) -> Voice:
    """A voice to clone."""
    return Voice(np.linspace(-1, 1, width, dtype=np.float32), codes, transcript)
