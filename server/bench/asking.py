"""What each request of a load asks for."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FRAMES_A_CHARACTER = 0.85
"""Codec frames that a text takes to say, of 80 ms each."""
_FEWEST_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Asking:
    """Bodies of speech requests: texts and voices in turn, each with a seed of its own.

    fields: the same in every body; they win, and one that is None takes the field out.
    frames: what an utterance is cut to, or ``"text"`` for ``FRAMES_A_CHARACTER``; sent as ``frames_field``.
    """

    texts: Sequence[str]
    voices: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    frames: int | Literal["text"] | None = None
    frames_field: str = "max_new_tokens"
    first_seed: int = 1

    def body(self, number: int) -> bytes:
        """The JSON of request ``number``."""
        own: dict[str, Any] = {
            "input": self._text(number),
            "response_format": "pcm",
            "stream": True,
            "seed": self.first_seed + number,
            self.frames_field: self.frames_of(number),
        }
        if self.voices:
            own["voice"] = self.voices[number % len(self.voices)]
        return json.dumps({name: value for name, value in {**own, **self.fields}.items() if value is not None}).encode()

    def frames_of(self, number: int) -> int | None:
        """Frames that request ``number`` is cut to; None where the model decides."""
        if self.frames == "text":
            return max(_FEWEST_FRAMES, round(FRAMES_A_CHARACTER * len(self._text(number))))
        return self.frames

    def _text(self, number: int) -> str:
        return self.texts[number % len(self.texts)]


def reference(source: str) -> str:
    """A recording as a request carries it: an address as it is, a file with its bytes. Raises OSError."""
    if source.startswith(("http://", "https://", "data:", "file:")):
        return source
    return "data:audio/wav;base64," + base64.b64encode(Path(source).read_bytes()).decode()
