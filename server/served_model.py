"""A served model: its names, engine, voices and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.errors import EngineError
from engine.protocol.engine import Engine
from engine.protocol.request import EngineInfo
from server.limits import Limits
from server.references.library import Decode, ReferenceLibrary
from server.settings import Settings
from server.text_settings import TextSettings
from server.voices.resolve import ModelVoices

OPENAI_MODELS = ("tts-1*", "gpt-4o-mini-tts*")
"""OpenAI's names of speech models, so that OpenAI clients work unchanged."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The last known state of a model's engine, for its metrics.

    up: whether the engine can synthesize speech. restarts: number of engine process restarts, by reason.
    stats: statistics of the engine's stages; None while they are unavailable.
    labels: the model's ``metric_labels``.
    """

    up: bool
    restarts: Mapping[str, int]
    stats: Mapping[str, int] | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of the server. Routes get it from ``Services.model``, by the ``model`` field of a request.

    name: its id in the API, in the log and in stored voices.
    aliases: other names that select it; ``*`` stands for any characters.
    engine: synthesizes its speech.
    voices: its speakers, the stored voices, its default voice and its voice aliases.
    references: encodes reference recordings with its engine.
    limits: what one of its requests may use.
    metric_labels: labels that tell its engine's metrics from those of other models; none for an only model.
    text: how the text of its requests is read.
    """

    name: str
    aliases: frozenset[str]
    engine: Engine
    voices: ModelVoices
    references: ReferenceLibrary
    limits: Limits
    metric_labels: Mapping[str, str] = field(default_factory=dict)
    text: TextSettings = field(default_factory=TextSettings)

    @property
    def info(self) -> EngineInfo:
        """What its checkpoint can do. Raises an EngineError that says why if the engine is not ready."""
        return self.engine.info

    def has_name(self, name: str) -> bool:
        """Return whether ``name`` selects this model."""
        return name == self.name or any(_matches(name, alias) for alias in self.aliases)

    async def stats(self, timeout: float) -> dict[str, int] | None:
        """Return fresh statistics of both stages, or after ``timeout`` seconds the last known ones, if any.

        Raises EngineError if the engine is not ready.
        """
        try:
            return await self.engine.stats(timeout)
        except TimeoutError:
            return self.engine.last_stats

    async def status(self, timeout: float) -> EngineStatus:
        """Return the status of the engine, whatever state it is in. Waits at most ``timeout`` seconds."""
        try:
            stats = await self.stats(timeout)
            up = stats is not None
        except EngineError:
            stats, up = self.engine.last_stats, False
        if stats is not None:
            stats = {**stats, "reference_hits": stats["reference_hits"] + self.references.hits}
        return EngineStatus(up, self.engine.restarts, stats, self.metric_labels)


def served_model(
    settings: Settings, engine: Engine, decode: Decode, *, several_keys: Callable[[], bool]
) -> ServedModel:
    """Return the model that ``settings`` describe.

    decode: decodes the files of reference recordings. several_keys: returns whether keys of several owners are valid.
    """
    return ServedModel(
        name=settings.model_name,
        aliases=frozenset({settings.engine.model, *OPENAI_MODELS, *settings.model_aliases}),
        engine=engine,
        voices=ModelVoices(engine, settings, several_keys=several_keys),
        references=ReferenceLibrary(engine, settings, decode),
        limits=settings.limits,
        text=settings.text,
    )


def _matches(name: str, alias: str) -> bool:
    """Return whether ``alias`` selects ``name``. Only ``*`` is special in an alias."""
    return re.fullmatch(re.escape(alias).replace(r"\*", ".*"), name, re.DOTALL) is not None
