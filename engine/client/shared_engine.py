"""Sends requests to an engine process that another process runs and watches. Imports no torch."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.client.client import State
from engine.client.links import EngineLinks
from engine.client.open_requests import OpenRequests
from engine.client.stream import ResponseQueue, SpeechStream
from engine.client.voice_requests import Kill, VoiceRequests
from engine.client.watchdog import Stats, is_model_failure
from engine.config import EngineConfig
from engine.errors import EngineError, EngineFailed, EngineUnavailable
from engine.protocol.messages import RequestKind, pack_request
from engine.protocol.request import EngineInfo, SpeechRequest, Voice
from engine.transfer import Kind, Record, Side, first_stream

_log = logging.getLogger(__name__)
Report = Literal["failed", "check", "lost"]
"""What the owner is told: the models have failed, they should be checked if they are idle, the links are lost."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the owner of an engine sends to the processes that share it.

    state, suspect, stalled: as of ``EngineClient``. failure: why it accepts no requests; None if it accepts them.
    info: what the checkpoint can do, while ``state`` is "ready".
    """

    state: State
    suspect: bool = False
    stalled: bool = False
    failure: EngineError | None = None
    info: EngineInfo | None = None


class SharedEngine:
    """An engine that another process runs: its owner. It has the methods of ``EngineClient`` that an engine pool uses.

    The owner starts, watches and restarts the engine process, and sends its state, which ``update`` receives.

    Args:
        config: the configuration of the engine process.
        name: of the engine, for the log.
        on_change: is called when ``state``, ``accepting``, ``suspect`` or ``stalled`` may have changed.
        report: sends a report to the owner, with the peer number of the links.
    """

    def __init__(
        self, config: EngineConfig, name: str, on_change: Callable[[], None], report: Callable[[Report, int], None]
    ) -> None:
        self._name, self._on_change, self._report = name, on_change, report
        self._state_of_owner = EngineState("starting", failure=EngineUnavailable("the engine is starting; retry later"))
        self._links: EngineLinks | None = None
        self._peer = 0
        self._not_joined = 0
        """How many of both links the engine process has not joined yet."""
        self._suspect = False
        self._requests, self._probes = OpenRequests(itertools.count()), OpenRequests(itertools.count())
        self._stats: Stats | None = None
        self._voices = VoiceRequests(config.stall_seconds, self._open_voice_request)

    @property
    def state(self) -> State:
        """The state: starting (or restarting), ready, failed (permanently) or closed."""
        return "starting" if self._state_of_owner.state == "ready" and not self._joined else self._state_of_owner.state

    @property
    def info(self) -> EngineInfo:
        """What the loaded checkpoint can do. Raises an EngineError that says why if the state is not "ready"."""
        if self._state_of_owner.info is None or self.state != "ready":
            raise self._failure()
        return self._state_of_owner.info

    @property
    def accepting(self) -> bool:
        """Whether the engine accepts requests, as far as is known."""
        return self._joined and self._state_of_owner.failure is None

    @property
    def stalled(self) -> bool:
        """Whether its owner has had no answer for half of ``stall_seconds``."""
        return self._state_of_owner.stalled

    @property
    def suspect(self) -> bool:
        """Whether the models failed on a request or a check, and have produced no audio since."""
        return self._state_of_owner.suspect or self._suspect

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
        self._report("check", self._peer)

    def check_accepting(self) -> None:
        """Raise the EngineError that says why the engine accepts no requests, if it does not. Never waits."""
        self._accepting_links()

    async def start(self) -> None:
        """Do nothing: the owner starts the engine."""

    async def close(self) -> None:
        """Close the links. Open requests fail; the engine process goes on."""
        self._state_of_owner = EngineState("closed", failure=EngineUnavailable("the engine is closed"))
        self._drop_links(self._failure())

    def update(self, state: EngineState, sides: tuple[Side, Side] | None = None, peer: int = 0) -> None:
        """Use the state that the owner has sent. sides: new links to the engine process, with number ``peer``."""
        if sides is not None:
            self._drop_links(EngineFailed("the engine process was replaced", code="engine_lost"))
            self._peer, self._not_joined = peer, len(sides)
            numbers = itertools.count(first_stream(peer) + 1)
            self._requests, self._probes = OpenRequests(numbers), OpenRequests(numbers)
            try:
                self._links = EngineLinks(*sides, self._receive, self._lost, either=True)
            except (OSError, RuntimeError):
                _log.exception("engine %s could not be connected", self._name)
                self._report("lost", peer)
        self._state_of_owner, self._suspect = state, False
        self._on_change()

    def announce(self) -> None:
        """Let the engine know that a request follows within milliseconds."""
        if self._links is not None:
            self._links.requests.announce()

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
        probe = self._probes.open(self._accepting_links(), pack_request(RequestKind.PROBE))
        async with asyncio.timeout(timeout):
            stats: Stats = json.loads(await probe.wait_for_end())
        self._stats = stats | {"client_streams": len(self._requests)}
        return self._stats

    @property
    def _joined(self) -> bool:
        return self._links is not None and not self._not_joined

    def _failure(self) -> EngineError:
        failure = self._state_of_owner.failure or EngineUnavailable("the engine is restarting; retry later")
        return failure.with_traceback(None)

    def _accepting_links(self) -> EngineLinks:
        """Return the links, or raise the EngineError that says why the engine accepts no requests."""
        if self._links is None or not self.accepting:
            raise self._failure()
        return self._links

    def _open_voice_request(self, payload: bytes) -> tuple[ResponseQueue, Kill]:
        """Open a request. Only the owner of the engine kills it when the encoder does not answer."""
        return self._requests.open(self._accepting_links(), payload), lambda message: None

    def _receive(self, responses: list[Record], audio: list[Record]) -> None:
        if self._not_joined:
            self._join(responses, audio)
        for record in responses:
            if record.kind in (Kind.END, Kind.FAIL):
                self._put(record)
        for record in audio:
            if record.kind is Kind.FAIL and record.stream in self._requests and is_model_failure(record.payload):
                self._suspect = True
                self._report("failed", self._peer)
                self._on_change()
            self._put(record)

    def _put(self, record: Record) -> None:
        self._requests.put(record)
        self._probes.put(record)

    def _join(self, responses: list[Record], audio: list[Record]) -> None:
        """Count the links that the engine process has joined."""
        first = first_stream(self._peer)
        ends = [each for each in (*responses, *audio) if each.stream == first and each.kind is Kind.END]
        self._not_joined -= len(ends)
        if ends and not self._not_joined:
            self._on_change()

    def _lost(self) -> None:
        """Handle the end of the engine process, or of the links to it."""
        self._report("lost", self._peer)
        self._drop_links(EngineFailed("the engine process ended unexpectedly", code="engine_lost"))
        self._on_change()

    def _drop_links(self, error: EngineError) -> None:
        links, self._links = self._links, None
        self._stats = None
        self._requests.fail_all(error)
        self._probes.fail_all(error)
        if links is not None:
            links.stop()
            links.close()
