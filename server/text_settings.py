"""Settings of the text front end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Respellings = Annotated[
    dict[
        Annotated[str, Field(max_length=100, pattern=r"\S")],
        Annotated[str, Field(max_length=200, pattern=r"\S")],
    ],
    Field(max_length=200),
]
"""Pronunciations: word -> respelling. Bounded because the cost of a text grows with their number."""


class TextSettings(BaseModel):
    """How the text of requests is read before it is spoken."""

    model_config = ConfigDict(extra="forbid")

    normalize: bool | None = Field(
        None,
        description="Default of the request field `normalize`. Unset: the steps that the checkpoint was trained with. "
        "true: all steps. false: none.",
    )
    pronunciations: Respellings = Field(
        default_factory=dict,
        description="Words with their respellings, such as `{SQL: sequel}`, for all requests. An entry in lower case "
        "matches in any case. `pronunciations` of a request takes precedence.",
    )
    soundless: Literal["refuse", "silence"] = Field(
        "refuse",
        description="What a text gets of which only punctuation, markup, emoji or pauses are left. `refuse`: 400 "
        "`nothing_to_speak`. `silence`: 0.2 s of silence, or its pauses, for voice agents, whose sentences may be an "
        "emoji. A list of turns and live text are always refused.",
    )
    name_emoji: bool = Field(False, description="Speak the English names of emoji instead of dropping them.")
