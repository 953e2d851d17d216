"""Replaces the configuration of a running server. Requests in flight end with the engines that they began with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Protocol

from engine.errors import EngineError
from engine.pool.member import PoolMember
from engine.pool.pool import EnginePool
from server.errors import ApiError
from server.keys.valid_keys import Keys, load_keys
from server.model_settings import ModelSettings
from server.references.decode import Decoder
from server.restart_settings import keep_restart_settings
from server.served_model import configure_admission, model_admission, served_model
from server.services import CurrentServices, Services, UseCount
from server.settings import Settings, SettingsError
from server.startup import START_SECONDS
from server.synthesis.admission import Admission
from server.voices.object_cache import open_bucket
from server.voices.storage_threads import StorageThreads

log = logging.getLogger("sonant")

_KEY_SETTINGS = ("api_key", "keys_file")


class ReloadError(Exception):
    """The new configuration cannot be used. The old one is still in use."""


@dataclass(frozen=True, slots=True)
class Reload:
    """How a server reloads its configuration.

    load: reads the configuration; raises SettingsError. applied: is called with the settings that are then in use.
    """

    load: Callable[[], Settings]
    applied: Callable[[Settings], None] = lambda settings: None


class MakePool(Protocol):
    """Makes the pool of a model."""

    def __call__(
        self,
        settings: Settings,
        model: ModelSettings,
        admission: Admission,
        kept: list[PoolMember],
        names: Iterator[int],
    ) -> EnginePool:
        """Return the engines of ``model``. kept, names: see ``EnginePool``."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did.

    started, kept, stopping: the engines, each as ``MODEL/NAME``. Those that are stopping finish their requests.
    needs_restart: changed settings that are used only after a restart.
    """

    started: tuple[str, ...]
    kept: tuple[str, ...]
    stopping: tuple[str, ...]
    needs_restart: tuple[str, ...]

    def __str__(self) -> str:
        """Return the text for the log and for ``sonant reload``."""
        engines = {"started": self.started, "kept": self.kept, "stopping after their requests": self.stopping}
        listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in engines.items() if names)
        text = f"the new configuration is in use; engines {listed}"
        if self.needs_restart:
            text += f". These settings need a restart and stay as they are: {', '.join(self.needs_restart)}"
        return text


@dataclass(frozen=True, slots=True, eq=False)
class RunningModels:
    """The models of one configuration: their services, and their engines by the name of the model."""

    services: Services
    pools: Mapping[str, EnginePool]

    @property
    def engines(self) -> list[PoolMember]:
        """The engines of all models."""
        return [engine for pool in self.pools.values() for engine in pool.engines.values()]


class Reloader:
    """Reloads the configuration, one reload at a time. Use it in one event loop.

    Args:
        current: the services of new requests.
        pools: the engines of the models in ``current``.
        decoder: decodes recordings.
        storage_threads: run the calls of the voice storage.
        started: ends when the first engines are ready. A reload waits for it.
        make_pool: returns the engines of a model.
        how: how the configuration is read.
    """

    def __init__(
        self,
        current: CurrentServices,
        pools: Mapping[str, EnginePool],
        decoder: Decoder,
        storage_threads: StorageThreads,
        started: asyncio.Task[None],
        *,
        make_pool: MakePool,
        how: Reload,
    ) -> None:
        self._current, self._decoder, self._started = current, decoder, started
        self._storage_threads = storage_threads
        self._make_pool, self._how = make_pool, how
        self._running = RunningModels(current.services, pools)
        self._draining: list[RunningModels] = []
        self._names: dict[str, Iterator[int]] = {}
        """The next names of engines, by model. No name is used twice: the metrics of both engines would be mixed."""
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[Reloaded] | None = None
        """The reload that waits for the lock."""
        self._tasks: set[asyncio.Task[None] | asyncio.Task[Reloaded]] = set()

    def request(self) -> None:
        """Reload in the background. The log has the result."""
        self._waiting_reload()

    async def reload(self) -> Reloaded:
        """Reload the configuration. Raises ReloadError, after which the old configuration is still in use.

        During another reload, this waits for it and then reads the configuration again. Calls that wait share a reload.
        """
        task = self._waiting_reload()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise ReloadError("the server is stopping") from None

    async def close(self) -> None:
        """Cancel a reload in progress, and stop all engines. Open requests fail."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        running = [self._running, *self._draining]
        await asyncio.gather(*(pool.close() for each in running for pool in each.pools.values()))

    def _waiting_reload(self) -> asyncio.Task[Reloaded]:
        """Return the reload that has not begun, or schedule one."""
        if self._next is None:
            self._next = asyncio.create_task(self._reload_in_turn())
            self._keep(self._next)
            self._next.add_done_callback(_log_result)
        return self._next

    async def _reload_in_turn(self) -> Reloaded:
        async with self._lock:
            self._next = None
            if (processes := self._running.services.settings.http_processes) > 1:
                raise ReloadError(
                    f"a server with {processes} HTTP processes (http_processes) must be restarted instead"
                )
            await asyncio.wait({self._started})
            log.info("reloading the configuration")
            return await self._reload()

    async def _reload(self) -> Reloaded:
        old = self._running
        try:
            old.services.admission.check_open()
        except ApiError as error:
            raise ReloadError(error.message) from None
        settings, needs_restart = await asyncio.to_thread(self._read, old.services)
        unused = old.engines
        admissions = {model.name: model.admission for model in old.services.models}
        pools: dict[str, EnginePool] = {}
        for model in sorted(settings.all_models, key=lambda each: each.name not in old.pools):
            own = [*old.pools[model.name].engines.values()] if model.name in old.pools else []
            unused.sort(key=lambda each: each not in own)
            admissions.setdefault(model.name, model_admission(settings, model))
            names = self._names.setdefault(model.name, count(len(own)))
            pools[model.name] = self._make_pool(settings, model, admissions[model.name], unused, names)
        try:
            await _start_engines(pools)
            keys = await asyncio.to_thread(
                _load_keys, settings
            )  # again: a key may have been revoked while engines loaded
        except BaseException:
            await asyncio.gather(*(pool.close(keep=old.engines) for pool in pools.values()))
            raise
        valid_keys = old.services.keys  # not old itself, which would never be freed
        served = [
            served_model(
                settings,
                model,
                pools[model.name],
                self._decoder.decode,
                admissions[model.name],
                self._storage_threads,
                several_keys=lambda: valid_keys.several,
            )
            for model in settings.all_models
        ]
        services = replace(old.services, settings=settings, models=tuple(served), use=UseCount())
        new = RunningModels(services, pools)
        started = [each for pool in pools.values() for each in pool.new_members]
        self._switch(old, new, keys)
        return Reloaded(
            started=_labels(started),
            kept=_labels([each for each in new.engines if each not in started]),
            stopping=_labels(unused),
            needs_restart=tuple(needs_restart),
        )

    def _read(self, services: Services) -> tuple[Settings, list[str]]:
        """Return the new settings, and the names of those that need a restart. Blocks. Raises ReloadError."""
        try:
            settings, needs_restart = keep_restart_settings(self._how.load(), services.settings)
            if settings.voices.url is not None:
                open_bucket(settings.voices.url)
        except SettingsError as error:
            raise ReloadError(str(error)) from None
        if bool(_load_keys(settings)) == services.keys.required:
            return settings, needs_restart
        # Requests need a key only before, or only after the change, and the middleware that checks them cannot change.
        before = {name: getattr(services.settings, name) for name in _KEY_SETTINGS}
        needs_restart += [name for name in _KEY_SETTINGS if getattr(settings, name) != before[name]]
        return settings.model_copy(update=before), needs_restart

    def _switch(self, old: RunningModels, new: RunningModels, keys: Keys) -> None:
        """Use ``new`` for all new requests, and drain ``old``."""
        services = new.services
        before = {model.name: model for model in old.services.models}
        for model in services.models:
            if model.name not in before:
                services.admission.add(model.admission)
                continue
            configure_admission(model.admission, services.settings.limits)
            if not set(new.pools[model.name].engines.values()).isdisjoint(old.pools[model.name].engines.values()):
                model.references.adopt(before[model.name].references)
        services.metrics.use_models({model.name: model.admission for model in services.models})
        self._decoder.use_limits(services.settings.limits)
        services.keys.use(keys)
        self._running = new
        self._draining.append(old)
        self._current.services = services
        self._current.draining = [each.services for each in self._draining]
        for pool in old.pools.values():
            pool.retire()
        for pool in new.pools.values():
            pool.activate()
        self._how.applied(services.settings)
        self._keep(asyncio.create_task(self._drain(old)))

    async def _drain(self, old: RunningModels) -> None:
        """Stop the engines of ``old`` that no other configuration uses, when its last request has ended."""
        await old.services.use.wait_unused()
        others = [self._running, *(each for each in self._draining if each is not old)]
        in_use = [engine for each in others for engine in each.engines]
        await asyncio.gather(*(pool.close(keep=in_use) for pool in old.pools.values()))
        admissions = {id(model.admission) for model in chain(*(each.services.models for each in others))}
        for model in old.services.models:
            if id(model.admission) not in admissions:
                old.services.admission.remove(model.admission)
        self._draining.remove(old)
        self._current.draining = [each.services for each in self._draining]
        if stopped := _labels([each for each in old.engines if each not in in_use]):
            log.info("the requests of the old configuration have ended; stopped engines %s", ", ".join(stopped))

    def _keep(self, task: asyncio.Task[None] | asyncio.Task[Reloaded]) -> None:
        """Keep a reference to ``task`` until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _start_engines(pools: Mapping[str, EnginePool]) -> None:
    """Load the new engines of ``pools``, and wait until all are ready. Raises ReloadError."""
    for pool in pools.values():
        pool.load_new()
    for name, pool in pools.items():
        try:
            await pool.wait_new(START_SECONDS)
        except EngineError as error:
            raise ReloadError(f"an engine of {name} could not start: {error}") from None
        except TimeoutError:
            raise ReloadError(f"an engine of {name} was not ready within {START_SECONDS:g} s") from None


def _load_keys(settings: Settings) -> Keys:
    """Return the keys in ``settings`` and in the key file. Blocks. Raises ReloadError."""
    try:
        return load_keys(settings)
    except SettingsError as error:
        raise ReloadError(str(error)) from None
    except OSError as error:
        raise ReloadError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None


def _labels(engines: list[PoolMember]) -> tuple[str, ...]:
    return tuple(engine.label for engine in engines)


def _log_result(task: asyncio.Task[Reloaded]) -> None:
    if task.cancelled():
        return
    match task.exception():
        case None:
            log.info("reloaded the configuration: %s", task.result())
        case ReloadError() as error:
            log.error("the configuration was not reloaded and nothing has changed: %s", error)
        case error:
            log.error("the configuration was not reloaded and nothing has changed", exc_info=error)
