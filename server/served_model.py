"""A served model: its names, engine, voices and limits."""

from __future__ import annotations

from dataclasses import dataclass

from engine.protocol.engine import Engine
from engine.protocol.request import EngineInfo
from server.references.library import Decode, ReferenceLibrary
from server.settings import Limits, Settings
from server.voices.resolve import ModelVoices


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of the server. Routes get it from ``Services.model``, by the ``model`` field of a request.

    name: its id in the API, in the log and in stored voices.
    aliases: other names that select it.
    engine: synthesizes its speech.
    voices: its speakers, the stored voices, its default voice and its voice aliases.
    references: encodes reference recordings with its engine.
    limits: what one of its requests may use.
    """

    name: str
    aliases: frozenset[str]
    engine: Engine
    voices: ModelVoices
    references: ReferenceLibrary
    limits: Limits

    @property
    def info(self) -> EngineInfo:
        """What its checkpoint can do. Raises an EngineError that says why if the engine is not ready."""
        return self.engine.info

    def has_name(self, name: str) -> bool:
        """Return whether ``name`` selects this model."""
        return name == self.name or name in self.aliases

    async def stats(self, timeout: float) -> dict[str, int] | None:
        """Return fresh statistics of both stages, or after ``timeout`` seconds the last known ones, if any.

        Raises EngineError if the engine is not ready.
        """
        try:
            return await self.engine.stats(timeout)
        except TimeoutError:
            return self.engine.last_stats


def served_model(settings: Settings, engine: Engine, decode: Decode, *, several_keys: bool = False) -> ServedModel:
    """Return the model that ``settings`` describe.

    decode: decodes the files of reference recordings. several_keys: whether several API keys are configured.
    """
    return ServedModel(
        name=settings.model_name,
        aliases=frozenset({settings.engine.model, *settings.model_aliases}),
        engine=engine,
        voices=ModelVoices(engine, settings, several_keys=several_keys),
        references=ReferenceLibrary(engine, settings, decode),
        limits=settings.limits,
    )
