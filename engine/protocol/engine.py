"""The interface of an engine to its callers. One engine process implements it; so can a pool. Imports no torch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import AudioChunk, Completion, EngineInfo, SpeechRequest, Voice

OnEngine = Callable[[str, bool], None]
"""Is called with the name of the engine process that a request is submitted to, and whether it was moved there."""


def ignore_engine(name: str, moved: bool) -> None:
    """An OnEngine that does nothing."""


class AudioStream(Protocol):
    """An asynchronous iterable of the audio chunks of one utterance, in order. Raises EngineError if it fails."""

    @property
    def completion(self) -> Completion:
        """How the utterance ended. Available once all chunks are consumed."""

    def __aiter__(self) -> AsyncIterator[AudioChunk]: ...

    def cancel(self) -> None:
        """Abort the utterance. No-op once it has ended."""


class EngineStream(AudioStream, Protocol):
    """The AudioStream of a submitted request. A live request accepts more text."""

    async def __anext__(self) -> AudioChunk: ...

    def append(self, piece: str, *, last: bool = False) -> None:
        """Append text to a live request; ``last`` ends the text. Never waits. Raises EngineUnavailable."""


class EngineUnit(Protocol):
    """One engine process, for its status."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """Number of times the engine process was replaced, by reason."""

    @property
    def last_stats(self) -> dict[str, int] | None:
        """The most recent statistics, or None."""

    @property
    def loaded(self) -> bool:
        """Whether the engine is loaded or being loaded, not unloaded after ``keep_alive``."""

    async def stats(self, timeout: float) -> dict[str, int]:
        """Return fresh statistics of both stages; nothing of an unloaded engine.

        Raises TimeoutError after ``timeout`` seconds, and EngineError if the engine cannot synthesize.
        """


class Engine(Protocol):
    """Synthesizes speech and encodes voices. Use it in one event loop.

    ``engine.client.client.EngineClient`` implements it with one engine process, ``engine.pool.pool.EnginePool`` with
    several.
    """

    @property
    def engines(self) -> Mapping[str, EngineUnit]:
        """The engine processes by name."""

    @property
    def info(self) -> EngineInfo:
        """What the loaded checkpoint can do. Raises an EngineError that says why if the engine is not ready."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """Number of times an engine process was replaced, by reason."""

    @property
    def last_stats(self) -> dict[str, int] | None:
        """The most recent statistics, or None."""

    async def start(self) -> None:
        """Start loading the checkpoint in the background."""

    async def wait_ready(self, timeout: float | None = None) -> EngineInfo:
        """Wait until the engine is ready. Raises EngineError if it cannot start, TimeoutError after ``timeout`` s."""

    async def close(self) -> None:
        """Stop the engine. Open requests fail."""

    def check_health(self) -> None:
        """Raise EngineError if the engine is known to be unable to synthesize. Never waits."""

    def check_accepting(self) -> None:
        """Raise the EngineError that says why new requests are refused now, if they are. Never waits."""

    async def stats(self, timeout: float) -> dict[str, int]:
        """Return fresh statistics of both stages. Raises TimeoutError after ``timeout`` seconds, and EngineError."""

    def announce(self) -> None:
        """Let the engine know that a request follows within milliseconds, so that its next step can wait for it."""

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> EngineStream:
        """Start an utterance. Never waits. Raises EngineUnavailable if the engine cannot accept it."""

    async def encode_reference(
        self, samples: NDArray[np.float32], sample_rate: int, *, codes: bool, transcript: str | None = None
    ) -> Voice:
        """Return the voice of a mono recording. In-context cloning needs ``codes`` and the transcript.

        Raises RequestError if the checkpoint cannot clone, and EngineUnavailable if the engine is not ready.
        """

    async def speaker_voice(self, speaker: str) -> Voice:
        """Return a built-in speaker as a voice to clone. ``speaker`` must be spelled as in the checkpoint.

        Raises RequestError if there is no such speaker, and EngineUnavailable if the engine is not ready.
        """
