"""A served model: its names, engines, voices, limits and admission."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.errors import EngineError
from engine.protocol.engine import Engine, EngineUnit
from engine.protocol.request import EngineInfo
from server.limits import Limits
from server.model_settings import ModelSettings
from server.references.library import Decode, ReferenceLibrary
from server.settings import Settings
from server.synthesis.admission import Admission
from server.text_settings import TextSettings
from server.voices.resolve import ModelVoices
from server.voices.storage_threads import StorageThreads

_DEVIATIONS = 3
"""How far the limit of one of several HTTP processes is above its share of the slots, in standard deviations of the
number of its requests: connections are distributed at random. Requests that find no slot wait in the engine."""
OPENAI_MODELS = ("tts-1*", "gpt-4o-mini-tts*")
"""OpenAI's names of speech models, so that OpenAI clients work unchanged."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The last known state of one engine of a model, for its metrics.

    up: whether the engine can synthesize speech, or is unloaded until the next request.
    restarts: number of engine process restarts, by reason.
    stats: statistics of the engine's stages; None while they are unavailable.
    labels: of its metrics: the model and the engine.
    loaded: whether the engine is not unloaded.
    """

    up: bool
    restarts: Mapping[str, int]
    stats: Mapping[str, int] | None
    labels: Mapping[str, str]
    loaded: bool = True


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of the server. Routes get it from ``Services.model``, by the ``model`` field of a request.

    name: its id in the API, in the log and in stored voices.
    aliases: other names that select it; ``*`` stands for any characters.
    engine: synthesizes its speech.
    voices: its speakers, the stored voices, its default voice and its voice aliases.
    references: encodes reference recordings with its engine.
    limits: what one of its requests may use.
    admission: limits its running requests and queues the others.
    text: how the text of its requests is read.
    """

    name: str
    aliases: frozenset[str]
    engine: Engine
    voices: ModelVoices
    references: ReferenceLibrary
    limits: Limits
    admission: Admission
    text: TextSettings = field(default_factory=TextSettings)

    @property
    def info(self) -> EngineInfo:
        """What its checkpoint can do. Raises an EngineError that says why if no engine was ready yet."""
        return self.engine.info

    def has_exact_name(self, name: str) -> bool:
        """Return whether ``name`` is this model's name or an alias without ``*``."""
        return name == self.name or (name in self.aliases and "*" not in name)

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

    def check_ready(self) -> None:
        """Raise ApiError while the server drains, and EngineError if no engine was ready yet or none is healthy."""
        self.admission.check_open()
        _ = self.info
        self.engine.check_health()

    def state(self) -> Literal["ready", "unloaded", "unavailable"]:
        """Return whether requests are accepted now, and whether they have to wait until the engines are loaded."""
        try:
            self.engine.check_accepting()
        except EngineError:
            return "unavailable"
        return "ready" if any(each.loaded for each in self.engine.engines.values()) else "unloaded"

    async def statuses(self, timeout: float) -> list[EngineStatus]:
        """Return the status of each engine, whatever state it is in. Waits at most ``timeout`` seconds.

        The reference cache of this process serves all engines. Its hits count as those of the first engine.
        """
        units = self.engine.engines
        statuses = await asyncio.gather(*(self._status(name, unit, timeout) for name, unit in units.items()))
        first = statuses[0]
        if first.stats is not None:
            hits = first.stats["reference_hits"] + self.references.hits
            statuses[0] = replace(first, stats={**first.stats, "reference_hits": hits})
        return statuses

    async def _status(self, name: str, unit: EngineUnit, timeout: float) -> EngineStatus:
        stats: dict[str, int] | None
        try:
            stats = await unit.stats(timeout)
            up = True
        except TimeoutError:
            stats = unit.last_stats
            up = stats is not None
        except EngineError:
            stats, up = unit.last_stats, False
        return EngineStatus(up, unit.restarts, stats or None, {"model": self.name, "engine": name}, unit.loaded)


def max_running(settings: Settings, model: ModelSettings) -> int:
    """Return how many requests of ``model`` run at once in this HTTP process while all its engines accept requests."""
    processes, limit = settings.http_processes, settings.limits.max_running
    if limit is not None:
        return math.ceil(limit / processes)
    share = model.slots / processes
    deviation = math.sqrt(share * (1 - 1 / processes))  # of a binomial distribution
    return math.ceil(share + _DEVIATIONS * deviation)


def model_admission(settings: Settings, model: ModelSettings) -> Admission:
    """Return the admission of ``model``: ``limits.max_running`` requests at once, or as many as its engines have slots.

    It queues ``limits.max_waiting`` more.
    """
    limits, running = settings.limits, max_running(settings, model)
    surplus = running * settings.http_processes / model.slots if limits.max_running is None else 1.0
    admission = Admission(running, limits.max_waiting, share=limits.client_share, surplus=surplus)
    configure_admission(admission, limits)
    return admission


def configure_admission(admission: Admission, limits: Limits) -> None:
    """Set what ``limits`` says about waiting requests."""
    admission.configure(limits.max_waiting, limits.contended_wait_seconds, limits.first_sound_seconds / 2)


def served_model(
    settings: Settings,
    model: ModelSettings,
    engine: Engine,
    decode: Decode,
    admission: Admission,
    storage_threads: StorageThreads,
    *,
    several_keys: Callable[[], bool] = lambda: False,
) -> ServedModel:
    """Return the model that ``model``, one of ``settings.all_models``, describes.

    decode: decodes the files of reference recordings. storage_threads: run the calls of the voice storage.
    several_keys: returns whether keys of several owners are valid.
    """
    is_default = model.name == settings.all_models[0].name
    return ServedModel(
        name=model.name,
        aliases=frozenset({model.engine.model, *(OPENAI_MODELS if is_default else ()), *model.aliases}),
        engine=engine,
        voices=ModelVoices(engine, settings, model, storage_threads, several_keys=several_keys),
        references=ReferenceLibrary(engine, settings, decode),
        limits=settings.limits,
        admission=admission,
        text=settings.text,
    )


def _matches(name: str, alias: str) -> bool:
    """Return whether ``alias`` selects ``name``. Only ``*`` is special in an alias."""
    return re.fullmatch(re.escape(alias).replace(r"\*", ".*"), name, re.DOTALL) is not None
