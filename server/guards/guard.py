"""The guard of one request: submits its pieces so that faulty speech is made again, or fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.protocol.engine import Engine, EngineStream
from engine.protocol.request import SpeechRequest
from server.guards.check import PieceCheck
from server.guards.expectation import is_very_short, paces_of
from server.guards.live import CheckedStream
from server.guards.stream import CountWords, GuardedStream
from server.guards.words import WordCheck
from server.long_text.speech import Submit
from server.settings import GuardMode
from server.telemetry.record import RequestRecord

_MARGIN_SECONDS = 0.5
"""Audio leaves at the latest this many seconds before the client's playback would have an underrun."""


def guarded(
    engine: Engine,
    mode: GuardMode,
    record: RequestRecord,
    word_check: WordCheck | None,
    on_audible: Callable[[], None] = lambda: None,
) -> Submit:
    """Return the function that submits the pieces of one request: a ``Guard``'s, or without guards the engine's.

    A random checkpoint has no guard: it speaks noise.
    """
    if mode == "off" or not engine.info.trained:
        return partial(engine.submit, on_engine=record.add_engine)
    return Guard(engine, record, word_check, on_audible).submit


def checked(engine: Engine, mode: GuardMode, record: RequestRecord, request: SpeechRequest) -> EngineStream:
    """Submit a live request and return its stream, checked as by a ``Guard``, but never made again."""
    stream = engine.submit(request, on_engine=record.add_engine)
    if mode == "off" or not engine.info.trained:
        return stream
    return CheckedStream(stream, request, _check(engine, request), record)


def _check(engine: Engine, request: SpeechRequest) -> PieceCheck:
    """Return a new check of the speech for ``request``."""
    paces = paces_of(engine.info.profile.characters_per_second, request.voice)
    return PieceCheck(request.text, paces, own_limit=request.sampling.max_new_tokens is not None)


class Guard:
    """Submits the pieces of one request to ``engine``.

    Args:
        engine: makes the speech.
        record: of the request; is told of retries, and knows how much audio a streaming client has left to play.
        word_check: counts the wrong words of complete pieces; None for no such check.
        on_audible: is called when a piece has speech, even if it is held back.
    """

    def __init__(
        self,
        engine: Engine,
        record: RequestRecord,
        word_check: WordCheck | None = None,
        on_audible: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine, self._record, self._word_check, self._on_audible = engine, record, word_check, on_audible

    def submit(self, request: SpeechRequest) -> GuardedStream:
        """Start a piece. Never waits. Raises EngineUnavailable."""
        return GuardedStream(
            partial(self._engine.submit, on_engine=self._record.add_engine),
            request,
            partial(_check, self._engine, request),
            self._hold_seconds if request.realtime and not self._holds_all(request) else lambda: None,
            self._record,
            self._on_audible,
            self._count_words(request),
        )

    def _count_words(self, request: SpeechRequest) -> CountWords | None:
        """Return what counts the wrong words of ``request``; None if its text cannot be checked."""
        if self._word_check is None or not self._word_check.applies(request, self._engine.info.profile):
            return None
        wait = not request.realtime and self._engine.info.device == "cpu"  # the same audio whatever the load is
        return partial(self._word_check.faults, request.text, wait=wait)

    def _holds_all(self, request: SpeechRequest) -> bool:
        """Return whether audio waits until its piece is complete: a very short one, which may be ``Fault.LONG``."""
        return is_very_short(request.text) and self._engine.info.profile.characters_per_second is not None

    def _hold_seconds(self) -> float:
        """Return how long audio may be held back without an underrun of the client; 0 before its first audio."""
        playback = self._record.playback
        return 0.0 if playback is None else max(0.0, playback.remaining - _MARGIN_SECONDS)
