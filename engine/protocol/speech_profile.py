"""What text and what recordings a checkpoint was trained for. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

TextStep = Literal["unicode", "markup", "emoji", "normalize", "quotes"]
"""A step of the server's text front end."""
TextLayout = Literal["streaming", "full"]
"""Where the text is in the prompt: one token added to each frame, or all of it before the first frame."""
LiveText = Literal["words", "sentences"]
"""How live text is spoken: from its first words, or in whole sentences."""


def _ascending_seconds(value: Any) -> Any:
    """Return a range of seconds as a tuple. Raises ValueError."""
    numbers = isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_seconds, value))
    if not numbers or value[0] >= value[1]:
        raise ValueError("two numbers above 0 in ascending order")
    return tuple(map(float, value))


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


@dataclass(frozen=True, slots=True)
class SpeechProfile:
    """The content of a checkpoint's sonant.json. The defaults are those of the published checkpoints.

    text_steps: the steps of the text front end that run for the checkpoint.
    languages: lower-case names of the languages it can read; empty: those of config.json.
    piece_characters: length of the longest piece of text that it speaks well, in letters.
    reference_seconds: shortest and longest reference recording that it was trained for.
    characters_per_second: mean pace of its voices, spaces and the pauses inside a piece included; None if unknown.
    text_layout: of requests that do not choose one; None: the reference implementation's default for the task, which is
        "streaming" for clones and "full" for other voices.
    live_text: how text that arrives in parts is spoken: from its first words, with one text token beside each frame, or
        in whole sentences, with the text layout of other requests.
    embedding_norm: smallest L2 norm of the x-vector of a recording; a smaller one is scaled up. The norm falls with the
        length of the recording, and x-vectors smaller than in training are spoken less clearly.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    text_steps: tuple[TextStep, ...] = ("unicode", "markup", "emoji")
    languages: tuple[Annotated[str, Field(pattern="^[a-z][a-z_ -]*$")], ...] = ()
    piece_characters: Annotated[int, Field(strict=True, ge=40)] = 300
    reference_seconds: Annotated[tuple[float, float], BeforeValidator(_ascending_seconds)] = (1.0, 30.0)
    characters_per_second: Annotated[float, Field(gt=0, le=100)] | None = None
    embedding_norm: Annotated[float, Field(ge=0, le=100)] = 0.0
    live_text: LiveText = "words"
    text_layout: TextLayout | None = None

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> SpeechProfile:
        """Return the profile with ``fields`` as they come out of JSON."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        return SpeechProfile(**values)
