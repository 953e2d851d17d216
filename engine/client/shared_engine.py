"""Sends requests to an engine process that another process runs and watches. Imports no torch."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.client.client import State, is_model_failure
from engine.client.links import EngineLinks
from engine.client.open_requests import OpenRequests
from engine.client.stream import ResponseQueue, SpeechStream
from engine.client.voice_requests import Kill, VoiceRequests
from engine.client.watchdog import Stats
from engine.config import EngineConfig
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.protocol.messages import RequestKind, pack_request
from engine.protocol.request import EngineInfo, SpeechRequest, Voice
from engine.transfer import Kind, Record, Side, first_stream

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the owner of an engine tells the processes that share it.

    state, suspect, stalled: as of ``EngineClient``. failure: why it accepts no requests; None if it accepts them.
    info: what the checkpoint can do, while ``state`` is "ready".
    """

    state: State
    suspect: bool = False
    stalled: bool = False
    failure: EngineError | None = None
    info: EngineInfo | None = None

    def to_fields(self) -> dict[str, Any]:
        """Return the state as JSON fields."""
        return {
            "state": self.state,
            "suspect": self.suspect,
            "stalled": self.stalled,
            "failure": None if self.failure is None else self.failure.to_bytes().decode(),
            "info": None if self.info is None else self.info.to_bytes().decode(),
        }

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> EngineState:
        """The inverse of ``to_fields``."""
        failure, info = fields["failure"], fields["info"]
        return EngineState(
            fields["state"],
            fields["suspect"],
            fields["stalled"],
            None if failure is None else EngineError.from_bytes(failure.encode()),
            None if info is None else EngineInfo.from_bytes(info.encode()),
        )


class SharedEngine:
    """An engine that another process runs: its owner. It has the methods of ``EngineClient`` that an engine pool uses.

    The owner starts, watches and restarts the engine process, and tells its state with ``update``.

    Args:
        config: the configuration of the engine process.
        name: of the engine, for ``engines`` and the log.
        on_change: is called when ``state``, ``accepting``, ``suspect`` or ``stalled`` may have changed.
        report: tells the owner that the models have failed on a request ("failed"), that the engine should be checked
            if it is idle ("check"), or that it does not answer ("stalled", with a message).
    """

    def __init__(
        self, config: EngineConfig, name: str, on_change: Callable[[], None], report: Callable[[str, str], None]
    ) -> None:
        self._name, self._on_change, self._report = name, on_change, report
        self._told = EngineState("starting", failure=EngineUnavailable("the engine is starting; retry later"))
        self._links: EngineLinks | None = None
        self._first = 0
        self._not_joined = 0
        """How many of both links the engine process has not joined yet."""
        self._suspect = False
        self._requests = OpenRequests(itertools.count())
        self._stats: Stats | None = None
        self._voices = VoiceRequests(config.stall_seconds, self._open_voice_request)

    @property
    def state(self) -> State:
        """The state: starting (or restarting), ready, failed (permanently) or closed."""
        return "starting" if self._told.state == "ready" and not self._joined else self._told.state

    @property
    def info(self) -> EngineInfo:
        """What the loaded checkpoint can do. Raises an EngineError that says why if the state is not "ready"."""
        if self._told.info is None or self.state != "ready":
            raise self._failure()
        return self._told.info

    @property
    def engines(self) -> Mapping[str, SharedEngine]:
        """This engine, by its name."""
        return {self._name: self}

    @property
    def accepting(self) -> bool:
        """Whether the engine accepts requests, as far as is known."""
        return self._joined and self._told.failure is None

    @property
    def loaded(self) -> bool:
        """Whether the engine is loaded or being loaded: always."""
        return True

    @property
    def stalled(self) -> bool:
        """Whether its owner has had no answer for half of ``stall_seconds``."""
        return self._told.stalled

    @property
    def suspect(self) -> bool:
        """Whether the models failed on a request or a check, and have produced no audio since."""
        return self._told.suspect or self._suspect

    @property
    def open_streams(self) -> int:
        """Number of requests of this process whose terminal record has not arrived."""
        return len(self._requests)

    @property
    def restarts(self) -> Mapping[str, int]:
        """Number of times this process replaced the engine process: its owner does that."""
        return {}

    @property
    def last_stats(self) -> Stats | None:
        """The most recent statistics of the running engine process, or None."""
        return self._stats

    def check_health(self) -> None:
        """Raise EngineError if the engine accepts no requests. Let its owner check the models if they are idle."""
        self.check_accepting()
        self._report("check", "")

    def check_accepting(self) -> None:
        """Raise the EngineError that says why the engine accepts no requests, if it does not. Never waits."""
        self._accepting_links()

    async def start(self) -> None:
        """Wait for what the owner tells: nothing is started here."""

    async def close(self) -> None:
        """Close the links. Open requests fail; the engine process goes on."""
        self._told = EngineState("closed", failure=EngineUnavailable("the engine is closed"))
        self._drop_links(self._failure())

    def update(self, state: EngineState, sides: tuple[Side, Side] | None = None, peer: int = 0) -> None:
        """Use what the owner tells. sides: new links to the engine process, as number ``peer`` of its peers."""
        if sides is not None:
            self._drop_links(EngineFailed("the engine process was replaced", code="engine_lost"))
            self._first, self._not_joined = first_stream(peer), len(sides)
            self._requests = OpenRequests(itertools.count(self._first + 1))
            self._links = EngineLinks(*sides, self._receive, self._lost)
        self._told, self._suspect = state, False
        self._on_change()

    def submit(self, request: SpeechRequest) -> SpeechStream:
        """Start an utterance. Never waits. Raises EngineUnavailable if the engine cannot accept it."""
        links = self._accepting_links()
        return SpeechStream(self._requests.open(links, pack_request(RequestKind.SPEECH, request.to_bytes())))

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        """Return the voice of a mono recording. Raises EngineError."""
        self._accepting_links()
        return await self._voices.encode(samples, sample_rate, codes=codes, transcript=transcript)

    async def speaker_voice(self, speaker: str) -> Voice:
        """Return a built-in speaker as a voice to clone. Raises EngineError."""
        return await self._voices.speaker(speaker)

    async def stats(self, timeout: float) -> Stats:
        """Return statistics of both stages, from a probe that passes through the whole pipeline.

        Raises TimeoutError if the probe does not return within ``timeout`` seconds, and EngineError without waiting if
        the engine accepts no requests.
        """
        probe = self._requests.open(self._accepting_links(), pack_request(RequestKind.PROBE))
        async with asyncio.timeout(timeout):
            stats: Stats = json.loads(await probe.wait_for_end())
        self._stats = stats | {"client_streams": len(self._requests)}
        return self._stats

    @property
    def _joined(self) -> bool:
        return self._links is not None and not self._not_joined

    def _failure(self) -> EngineError:
        failure = self._told.failure or EngineUnavailable("the engine is restarting; retry later")
        return failure.with_traceback(None)

    def _accepting_links(self) -> EngineLinks:
        """Return the links, or raise the EngineError that says why the engine accepts no requests."""
        if self._links is None or not self.accepting:
            raise self._failure()
        return self._links

    def _open_voice_request(self, payload: bytes) -> tuple[ResponseQueue, Kill]:
        links = self._accepting_links()

        def kill(message: str) -> None:
            if self._links is links:
                self._report("stalled", message)

        return self._requests.open(links, payload), kill

    def _receive(self, responses: list[Record], audio: list[Record]) -> None:
        if self._not_joined:
            self._join(responses, audio)
        for record in responses:
            if record.kind in (Kind.END, Kind.FAIL):
                self._requests.put(record)
        for record in audio:
            if record.kind is Kind.FAIL and record.stream in self._requests and is_model_failure(record.payload):
                self._suspect = True
                self._report("failed", "")
                self._on_change()
            self._requests.put(record)

    def _join(self, responses: list[Record], audio: list[Record]) -> None:
        """Count the links that the engine process has joined."""
        ends = [each for each in (*responses, *audio) if each.stream == self._first and each.kind is Kind.END]
        self._not_joined -= len(ends)
        if ends and not self._not_joined:
            self._on_change()

    def _lost(self) -> None:
        """Handle the end of the engine process."""
        self._drop_links(EngineFailed("the engine process ended unexpectedly", code="engine_lost"))
        self._on_change()

    def _drop_links(self, error: EngineError) -> None:
        links, self._links = self._links, None
        self._stats = None
        self._requests.fail_all(error)
        if links is not None:
            links.stop()
            links.close()
