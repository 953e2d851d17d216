"""The record of one request: the source of its log line, metrics, trace and outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.protocol.request import SAMPLE_RATE, Completion
from server.alignment.timed_words import TimedWords, WordTime
from server.errors import CLIENT_DISCONNECTED, failure_of, shown
from server.text.frontend import Spoken


class Playback:
    """Simulates a client that plays audio from the first byte on, and counts its buffer underruns.

    underruns: number of underruns. dry_seconds: their total length.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.underruns = 0
        self.dry_seconds = 0.0
        self._clock = clock
        self._empty_at: float | None = None
        """When the player's buffer runs empty; None before the first audio."""

    @property
    def remaining(self) -> float:
        """Seconds of audio in the player's buffer; 0 before the first audio and during an underrun."""
        return 0.0 if self._empty_at is None else max(0.0, self._empty_at - self._clock())

    def add_audio(self, seconds: float) -> None:
        """Record that ``seconds`` of audio are sent now."""
        now = self._clock()
        if self._empty_at is None:
            self._empty_at = now
        elif now > self._empty_at:
            self.underruns += 1
            self.dry_seconds += now - self._empty_at
            self._empty_at = now
        self._empty_at += seconds

    def add_backpressure(self, seconds: float) -> None:
        """Exclude ``seconds`` that the server waited for a slow reader (back-pressure).

        The client has audio in its buffer during that time, so the wait is not an underrun.
        """
        if self._empty_at is not None:
            self._empty_at += seconds


FieldValue = str | int | float
WEBSOCKET = "WS"
"""The ``method`` of a live session's record."""

_SPEECH = "/v1/audio/speech"
_SPEECH_REQUESTS = frozenset({("POST", _SPEECH), ("POST", f"{_SPEECH}/batch"), (WEBSOCKET, f"{_SPEECH}/stream")})
_MAX_METHOD = 16
_MAX_PATH = 256
_MAX_FAILURE = 256
MAX_SPOKEN = 300
"""Characters of the spoken text that an outcome has."""
_EVICTIONS = frozenset({"client_too_slow", "seat_recalled"})
"""Error codes of requests that were evicted in favor of another one. Their stream may have started with status 200."""
_OUTCOMES = {
    429: "turned_away",
    CLIENT_DISCONNECTED: "client_left",
    503: "unavailable",
    504: "timed_out",
}


@dataclass(slots=True)
class RequestRecord:
    """The record of one request or utterance, for the log, metrics, traces and outcomes.

    The code that handles the request sets its fields as they become known, and does not read results from them.
    Records are kept for an hour after their requests end, so method and path are truncated when the record is created.

    traceparent: the client's W3C trace context.
    client: the id of the request's API key, or the client's address if it sent none.
    owner: the id of the API key alone; decides which voices and outcomes the request may use.
    key: the name of the API key.
    changed: the steps of the text front end that changed the text, and "pronunciations".
    spoken: the beginning of the spoken text, if it is not the text that was sent.
    first_audio: seconds from the start of the request to the first audible audio.
    onset: seconds until a client hears it: ``first_audio`` plus the silence at the start of the utterance.
    engine_seconds: time spent waiting for samples from the engine.
    playback: the simulated player, for streamed speech.
    reference: what was done to the reference recording and its transcript, if anything.
    part: whether this is one utterance of a request with several.
    parts: number of utterances of this request, if it has several.
    times_words: whether the request wants the times of its words, and they are kept.
    words: the words whose times are known; None where their language is not covered.
    retries: number of faulty pieces of speech that were made again, by fault. fault: the fault that ended the request.
    turns: number of turns of several speakers, if ``input`` was a list.
    live: whether this is a live session, or an utterance of one.
    other_protocol: whether a speech request came through a listener that does not speak HTTP.
    model: the name of the served model. engines: the names of its engines that processed the request, in order.
    moves: how often it was submitted again because an engine was lost or failed before its audio was audible.
    """

    id: str
    method: str = "GET"
    path: str = "/"
    traceparent: str = ""
    client: str = ""
    owner: str | None = None
    key: str | None = None
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    status: int | None = None
    task: str | None = None
    voice: str | None = None
    characters: int | None = None
    changed: tuple[str, ...] = ()
    spoken: str | None = None
    first_audio: float | None = None
    onset: float | None = None
    samples: int = 0
    engine_seconds: float = 0.0
    playback: Playback | None = None
    speed: float = 1.0
    completion: Completion | None = None
    failure: str | None = None
    param: str | None = None
    reference: str | None = None
    part: bool = False
    parts: int = 0
    times_words: bool = False
    words: TimedWords | None = None
    retries: dict[str, int] = field(default_factory=dict)
    fault: str | None = None
    turns: int | None = None
    live: bool = False
    other_protocol: bool = False
    model: str | None = None
    engines: tuple[str, ...] = ()
    moves: int = 0

    def __post_init__(self) -> None:
        self.live = self.live or self.method == WEBSOCKET
        self.method = shown(self.method, _MAX_METHOD)
        self.path = shown(self.path, _MAX_PATH)

    def part_record(self, number: int) -> RequestRecord:
        """Return a new record for one utterance of this request, with the id ``{id}.{number}``."""
        name = f"{self.id}.{number}"
        return RequestRecord(
            name,
            self.method,
            self.path,
            self.traceparent,
            self.client,
            self.owner,
            self.key,
            part=True,
            live=self.live,
            other_protocol=self.other_protocol,
        )

    @property
    def is_speech(self) -> bool:
        """Whether this is a speech request: single, batch or live session."""
        return self.other_protocol or (self.method, self.path) in _SPEECH_REQUESTS

    @property
    def is_session(self) -> bool:
        """Whether this is a live session as a whole; its utterances have their own records."""
        return self.live and not self.part

    @property
    def outcome(self) -> str:
        """How the request ended, as one word, or "running"."""
        if self.ended is None:
            return "running"
        if self.failure is None and (self.status is None or self.status < 400):
            return "completed"
        if self.failure in _EVICTIONS:
            return "evicted"
        if self.status in _OUTCOMES:
            return _OUTCOMES[self.status]
        return "refused" if self.status is not None and 400 <= self.status < 500 else "failed"

    @property
    def seconds(self) -> float:
        """Seconds from the start of the request to its end, or until now if it is running."""
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    @property
    def audio_seconds(self) -> float:
        """Seconds of speech synthesized for this request."""
        return self.samples / SAMPLE_RATE

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of engine time per second of speech, without the time spent waiting for the client to read.

        None without samples, and for live sessions, where the engine also waits for the client's text.
        """
        return self.engine_seconds / self.audio_seconds if self.samples and not self.live else None

    def set_spoken(self, spoken: Spoken) -> None:
        """Record what the text front end made of the text."""
        self.changed = spoken.changed
        if spoken.changed:
            self.spoken = spoken.text[:MAX_SPOKEN]

    def set_first_audio(self, silence: float) -> None:
        """Record that the first audible audio is available now, after ``silence`` seconds of silent samples."""
        self.first_audio = time.monotonic() - self.started
        self.onset = self.first_audio + silence / self.speed

    def add_samples(self, samples: int) -> None:
        """Record that ``samples`` samples are sent now."""
        self.samples += samples
        if self.playback is not None:
            self.playback.add_audio(samples / SAMPLE_RATE / self.speed)

    def add_words(self, words: Iterable[WordTime]) -> None:
        """Record the times of further words."""
        self.words = TimedWords() if self.words is None else self.words
        self.words.extend(words)

    def drop_words(self) -> None:
        """Forget the times of the words, to free memory."""
        self.times_words, self.words = False, None

    def add_backpressure(self, seconds: float) -> None:
        """Record that the server waited ``seconds`` for a slow reader (back-pressure)."""
        if self.playback is not None:
            self.playback.add_backpressure(seconds)

    def add_retry(self, fault: str) -> None:
        """Record that a piece of speech is made again because of ``fault``."""
        self.retries[fault] = self.retries.get(fault, 0) + 1

    def add_engine(self, name: str, moved: bool) -> None:
        """Record that the request is submitted to an engine. moved: again, because another one was lost or failed."""
        if name not in self.engines:
            self.engines = (*self.engines, name)
        self.moves += moved

    def add_reference_change(self, change: str) -> None:
        """Record that the reference recording of the voice was used differently, once for each ``change``."""
        if self.reference is None:
            self.reference = change
        elif change not in self.reference:
            self.reference = f"{self.reference}, {change}"

    def add_part(self, part: RequestRecord) -> None:
        """Add the finished utterance ``part`` to the totals of this request.

        The task is that of the first utterance. The voice is set only while all utterances use the same one.
        """
        self.parts += 1
        if part.task is None:
            return
        self.voice = part.voice if self.task is None or self.voice == part.voice else None
        self.model = part.model if self.task is None or self.model == part.model else None
        self.engines = tuple(dict.fromkeys((*self.engines, *part.engines))) if self.model else ()
        self.moves += part.moves
        self.task = self.task or part.task
        self.characters = (self.characters or 0) + (part.characters or 0)
        self.samples += part.samples
        self.engine_seconds += part.engine_seconds
        for fault, count in part.retries.items():
            self.retries[fault] = self.retries.get(fault, 0) + count

    def failed(self, error: BaseException) -> None:
        """Record that the request ended with ``error``, before or after its status line was sent."""
        failure = failure_of(error)
        self.failure = failure.code or shown(failure.message, _MAX_FAILURE)
        self.param = failure.param
        if failure.status == CLIENT_DISCONNECTED:
            self.status = CLIENT_DISCONNECTED

    def set_status(self, error: BaseException | None) -> None:
        """Set the final status of an utterance or a live session, which has no HTTP status line.

        The status is that of ``error``, or 200 if it is None.
        """
        if error is not None:
            self.failed(error)
        self.status = 200 if error is None else failure_of(error).status

    def word_fields(self) -> dict[str, Any]:
        """Return the field ``words`` for clients, if the request wants it: a list, or None."""
        if not self.times_words:
            return {}
        return {"words": None if self.words is None else self.words.fields()}

    def fields(self) -> dict[str, FieldValue]:
        """Return the fields for logs, traces and the outcome API, in a fixed order, without unset ones.

        They contain no text of the client, except for names.
        """
        fields = {
            "id": self.id,
            "status": self.status,
            "outcome": self.outcome,
            "key": self.key,
            "model": self.model,
            "engine": ",".join(self.engines) or None,
            "moves": self.moves or None,
            "task": self.task,
            "voice": self.voice,
            "reference": self.reference,
            "characters": self.characters,
            "turns": self.turns,
            "changed": ",".join(self.changed) or None,
            "seconds": self.seconds,
            "first_audio": self.first_audio,
            "onset": self.onset,
            "audio": self.audio_seconds or None,
            "rtf": self.real_time_factor,
            "underruns": self.playback.underruns if self.playback and self.samples else None,
            "finish": None if self.completion is None else self.completion.finish_reason.value,
            "retries": ",".join(f"{fault}:{count}" for fault, count in sorted(self.retries.items())) or None,
            "fault": self.fault,
            "error": self.failure,
            "param": self.param,
        }
        return {name: _rounded(value) for name, value in fields.items() if value is not None}


def _rounded(value: FieldValue) -> FieldValue:
    return round(value, 3) if isinstance(value, float) else value
