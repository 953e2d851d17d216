"""The guard of one request: submits its pieces so that faulty speech is made again, or fails."""

from __future__ import annotations

from collections.abc import Callable

from engine.protocol.engine import Engine
from engine.protocol.request import SpeechRequest
from server.guards.check import PieceCheck
from server.guards.stream import GuardedStream
from server.long_text.speech import Submit
from server.settings import GuardMode
from server.telemetry.record import RequestRecord

_MARGIN_SECONDS = 0.5
"""Audio leaves at the latest this many seconds before the client's playback would have an underrun."""


def guarded(
    engine: Engine, mode: GuardMode, record: RequestRecord, on_audible: Callable[[], None] = lambda: None
) -> Submit:
    """Return the function that submits the pieces of one request: a ``Guard``'s, or without guards the engine's.

    A random checkpoint has no guard: it speaks noise.
    """
    if mode == "off" or not engine.info.trained:
        return engine.submit
    return Guard(engine, record, on_audible).submit


class Guard:
    """Submits the pieces of one request to ``engine``.

    Args:
        engine: makes the speech.
        record: of the request; is told of retries, and knows how much audio a streaming client has left to play.
        on_audible: is called when a piece has audible audio, even if it is held back.
    """

    def __init__(self, engine: Engine, record: RequestRecord, on_audible: Callable[[], None] = lambda: None) -> None:
        self._engine, self._record, self._on_audible = engine, record, on_audible

    def submit(self, request: SpeechRequest) -> GuardedStream:
        """Start a piece. Never waits. Raises EngineUnavailable."""
        pace = self._engine.info.profile.characters_per_second
        own_limit = request.sampling.max_new_tokens is not None
        return GuardedStream(
            self._engine.submit,
            request,
            lambda: PieceCheck(request.text, pace, own_limit=own_limit),
            self._hold_seconds if request.realtime else lambda: None,
            self._record,
            self._on_audible,
        )

    def _hold_seconds(self) -> float:
        """Return how long audio may be held back without an underrun of the client; 0 before its first audio."""
        playback = self._record.playback
        return 0.0 if playback is None else max(0.0, playback.remaining - _MARGIN_SECONDS)
