"""One piece of speech that is checked while it is made, and made again while it is unheard."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from engine.errors import EngineError, EngineFailed, PoisonRequest
from engine.protocol.engine import EngineStream
from engine.protocol.request import AudioChunk, Completion, FinishReason, SamplingParams, SpeechRequest, Voice
from server.errors import ApiError
from server.guards.check import Fault, PieceCheck
from server.telemetry.record import RequestRecord

log = logging.getLogger("sonant.guards")

_RETRIES = 2
"""How often a piece is made again."""
_X_VECTOR_ONLY = "x-vector only (speech_failed)"
_DESCRIPTIONS = {
    Fault.SILENT: "was silent",
    Fault.RUNAWAY: "was much longer than its text",
    Fault.TRUNCATED: "was much shorter than its text",
    Fault.REPEATING: "repeated the same sound",
    Fault.LENGTH: "did not end before the length limit",
    Fault.LONG: "was longer than usual for so short a text",
    Fault.WORDS: "lacked or repeated words of its text",
}


_DOUBTS = (Fault.LONG, Fault.WORDS)
"""Faults that are only a reason to try again."""

CountWords = Callable[[Sequence[AudioChunk]], Awaitable[int]]
"""Returns how many words are wrong in the chunks of a complete attempt (``WordCheck.faults``)."""


@dataclass(frozen=True, slots=True)
class _DoubtfulAttempt:
    """A complete attempt that is sent if no better one follows. badness: seconds of speech, or wrong words."""

    badness: float
    request: SpeechRequest
    chunks: deque[AudioChunk]
    completion: Completion


class GuardedStream:
    """The chunks of one piece. Holds them back while that is possible, to make a faulty piece again unheard.

    A piece that is still faulty after two more attempts, or after a part of it left, raises ApiError ``speech_failed``.
    The last attempt for a voice that is cloned in context uses its x-vector only, which is more reliable.
    Of attempts that are only ``LONG``, the shortest is kept when no better one follows, and of those with wrong words
    the one with the fewest. It is also sent when time is up before the next attempt is complete, or when that fails.
    An attempt that is not wanted any more is cancelled in the engine. After ``cancel`` the iteration ends. An attempt
    whose engine is lost or fails is submitted once more while its audio is held back.

    Args:
        submit: starts an attempt: ``Engine.submit``.
        request: what to say. Later attempts have seeds that follow from its seed.
        check: returns the check of a new attempt.
        hold_seconds: returns for how many seconds audio may still be held back; None for until the piece is complete.
            Audio before the first speech, as the check finds it, is always held back.
        record: is told of retries and of the fault that ends the request.
        on_audible: is called when speech has arrived for the first time, even if it is held back.
        count_words: counts the wrong words of an attempt that is complete before its audio must leave; None for no
            such check.
    """

    def __init__(
        self,
        submit: Callable[[SpeechRequest], EngineStream],
        request: SpeechRequest,
        check: Callable[[], PieceCheck],
        hold_seconds: Callable[[], float | None],
        record: RequestRecord,
        on_audible: Callable[[], None] = lambda: None,
        count_words: CountWords | None = None,
    ) -> None:
        self._submit, self._request = submit, request
        self._count_words = count_words
        self._new_check, self._check = check, check()
        self._hold_seconds, self._record, self._on_audible = hold_seconds, record, on_audible
        self._attempt_request = request
        self._stream = submit(request)
        self._resubmitted = False
        self._attempt = 0
        self._held: deque[AudioChunk] = deque()
        self._audible = self._released = self._ended = self._cancelled = False
        self._completion: Completion | None = None
        self._doubtful: _DoubtfulAttempt | None = None

    @property
    def completion(self) -> Completion:
        """How the accepted attempt ended. Raises RuntimeError until the iteration has ended."""
        if self._cancelled:
            return Completion(FinishReason.CANCELLED, 0, 0)
        if self._completion is None:
            raise RuntimeError("the piece has not ended")
        return self._completion

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        while not self._cancelled:
            if self._released and self._held:
                return self._held.popleft()
            if self._ended:
                break
            await self._receive()
        raise StopAsyncIteration

    def cancel(self) -> None:
        """Abort. No-op once the piece has ended."""
        self._cancelled = not self._ended
        self._stream.cancel()

    async def _receive(self) -> None:
        """Receive a chunk or the end of the piece, or release what may not be held back any longer."""
        waits = self._doubtful is not None or (bool(self._held) and self._audible)
        seconds = self._hold_seconds() if waits and not self._released else None
        try:
            async with asyncio.timeout(None if seconds is None else max(0.0, seconds)) as timeout:
                chunk = await anext(self._stream, None)
        except TimeoutError:
            if not timeout.expired():
                raise
            self._release()
            return
        except EngineFailed as error:
            final = self._released or self._resubmitted or isinstance(error, PoisonRequest)
            if final and self._doubtful is None:
                raise
            if final:
                self._release()
                return
            self._resubmitted = True
            self._record.moves += 1
            self._begin(self._attempt_request)
            return
        if chunk is None:
            await self._end()
            return
        self._held.append(chunk)
        if (fault := self._check.add(chunk)) is not None:
            self._make_again(fault)
        elif not self._audible and self._check.activity.first is not None:
            self._audible = True
            self._on_audible()
        if self._audible and not self._released:
            seconds = self._hold_seconds()
            if seconds is not None and seconds <= 0:
                self._release()

    def _release(self) -> None:
        """Send what there is: a complete attempt rather than the unfinished one."""
        if self._doubtful is None:
            self._released = True
            return
        self._stream.cancel()
        self._held = self._doubtful.chunks
        self._accept(self._doubtful.completion, self._doubtful.request)

    async def _end(self) -> None:
        completion = self._stream.completion
        fault = self._check.end(completion.finish_reason)
        badness = self._check.activity.speech_seconds
        if fault is None and (wrong := await self._wrong_words(completion)):
            fault, badness = Fault.WORDS, wrong
        if self._cancelled:
            return
        if fault in _DOUBTS and not self._released:
            attempt = _DoubtfulAttempt(badness, self._attempt_request, self._held, completion)
            self._doubtful = min(self._doubtful or attempt, attempt, key=lambda each: each.badness)
        if fault is None or (fault in _DOUBTS and self._released):
            self._accept(completion, self._attempt_request)
        else:
            self._make_again(fault)

    async def _wrong_words(self, completion: Completion) -> int:
        """Return the number of wrong words; 0 if that is not known before the audio must leave."""
        if self._count_words is None or self._released or completion.finish_reason is not FinishReason.STOP:
            return 0
        try:
            async with asyncio.timeout(self._hold_seconds()):
                return await self._count_words(self._held)
        except TimeoutError:
            return 0

    def _accept(self, completion: Completion, request: SpeechRequest) -> None:
        """End the piece with the attempt for ``request``."""
        if _in_context(self._request) and not _in_context(request):
            self._record.add_reference_change(_X_VECTOR_ONLY)
        self._completion = completion
        self._ended = self._released = True

    def _make_again(self, fault: Fault) -> None:
        """Start the next attempt. Raises ApiError when the audio has been heard, or there are no more attempts."""
        self._stream.cancel()
        text = self._request.text
        seconds = self._check.activity.seconds
        what = f"speech {_DESCRIPTIONS[fault]}: {seconds:.1f} s of audio for {len(text)} characters"
        hopeless = _deterministic(self._request.sampling) or (fault is Fault.LENGTH and self._check.text_too_long)
        if self._released or hopeless or self._attempt == _RETRIES:
            if self._doubtful is not None:
                self._release()
                return
            self._record.fault = fault.value
            log.warning("id=%s %s; attempt %d, giving up", self._record.id, what, self._attempt + 1)
            self._ended = True
            raise speech_failed(fault, self._attempt + 1, self._request)
        self._attempt += 1
        self._record.add_retry(fault.value)
        log.warning("id=%s %s; attempt %d, made again with another seed", self._record.id, what, self._attempt)
        self._begin(self._next_request(fault))

    def _begin(self, request: SpeechRequest) -> None:
        """Start an attempt, and forget the audio of the one before."""
        self._held = deque()
        self._audible = False
        self._check = self._new_check()
        self._attempt_request = request
        try:
            self._stream = self._submit(request)
        except EngineError:
            if self._doubtful is None:
                raise
            self._release()

    def _next_request(self, fault: Fault) -> SpeechRequest:
        """Return the request of the attempt that begins now, because of ``fault`` in the previous one."""
        sampling, voice = self._request.sampling, self._request.voice
        if self._attempt == _RETRIES and fault not in _DOUBTS and voice is not None and _in_context(self._request):
            voice = Voice(voice.embedding)
            log.warning("id=%s attempt %d uses the x-vector of the voice only", self._record.id, self._attempt + 1)
        seed = retry_seed(sampling.seed, self._attempt)
        return replace(self._request, voice=voice, sampling=replace(sampling, seed=seed))


def _in_context(request: SpeechRequest) -> bool:
    """Return whether the voice is cloned in context."""
    return request.voice is not None and request.voice.codes is not None


def speech_failed(fault: Fault, attempts: int, request: SpeechRequest) -> ApiError:
    """Return the error for the speech of ``request`` with a fault that cannot be mended."""
    tried = f" in each of {attempts} attempts" if attempts > 1 else ""
    in_context = request.voice is not None and request.voice.transcript is not None
    transcript = ", and check that ref_text is the exact transcript of the recording" if in_context else ""
    return ApiError(
        f"the speech {_DESCRIPTIONS[fault]}{tried} ({fault.value}): send the request again with another seed, or the "
        f"text in shorter parts and in plain words{transcript}; with guards: off the server delivers such speech",
        status=500,
        code="speech_failed",
    )


def retry_seed(seed: int | None, attempt: int) -> int | None:
    """Return the seed of an attempt, from 1: derived from the seed of the piece, or None if it has none."""
    if seed is None:
        return None
    digest = hashlib.blake2b(f"{seed}:attempt {attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _deterministic(sampling: SamplingParams) -> bool:
    """Whether another seed gives the same speech."""
    return sampling.greedy or (sampling.temperature == 0 and sampling.subtalker_temperature == 0)
