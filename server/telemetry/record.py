"""Everything known about one request: the source of its log line, metrics, trace and outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.protocol.request import SAMPLE_RATE, Completion
from server.errors import CLIENT_DISCONNECTED, failure_of, shown


class Playback:
    """Counts how often, and for how long, such a listener would have run dry."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.underruns = 0
        self.dry_seconds = 0.0
        self._clock = clock
        self._runs_dry: float | None = None

    def gave(self, seconds: float) -> None:
        """So many seconds of audio go out now."""
        now = self._clock()
        if self._runs_dry is None:
            self._runs_dry = now
        elif now > self._runs_dry:
            self.underruns += 1
            self.dry_seconds += now - self._runs_dry
            self._runs_dry = now
        self._runs_dry += seconds

    def held_up(self, seconds: float) -> None:
        """The listener took so long to take what was sent: its own time, with audio in hand, so its clock stood."""
        if self._runs_dry is not None:
            self._runs_dry += seconds


Fact = str | int | float
WEBSOCKET = "WS"
"""The method of a live session."""

_SPEECH = "/v1/audio/speech"
_SPEECH_REQUESTS = frozenset({("POST", _SPEECH), ("POST", f"{_SPEECH}/batch"), (WEBSOCKET, f"{_SPEECH}/stream")})
_LONGEST_METHOD = 16
_LONGEST_PATH = 256
_LONGEST_FAILURE = 256
_EVICTIONS = frozenset({"client_too_slow", "seat_recalled"})
"""Codes of requests whose seat was given to another; a stream of theirs may have begun with status 200."""
_OUTCOMES = {
    429: "turned_away",
    CLIENT_DISCONNECTED: "client_left",
    503: "unavailable",
    504: "timed_out",
}


@dataclass(slots=True)
class RequestRecord:
    """Filled in by the routes as they learn it.

    traceparent: of the client's trace; playback: for speech that is streamed; engine_seconds: spent waiting for
    samples; onset: when a listener hears something, which is ``first_audio`` and the silence that the utterance
    begins with. part: it is one utterance of several; parts: how many it had itself.
    client: the id of the key that the request brought, else the client's address; owner: the key's id alone, which
    decides whose voices and outcomes the request may use. Records outlive their requests by an hour, so the texts
    of a client are cut when the record is made.
    """

    id: str
    method: str = "GET"
    path: str = "/"
    traceparent: str = ""
    client: str = ""
    owner: str | None = None
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    status: int | None = None
    task: str | None = None
    voice: str | None = None
    characters: int | None = None
    first_audio: float | None = None
    onset: float | None = None
    samples: int = 0
    engine_seconds: float = 0.0
    playback: Playback | None = None
    speed: float = 1.0
    completion: Completion | None = None
    failure: str | None = None
    param: str | None = None
    part: bool = False
    parts: int = 0

    def __post_init__(self) -> None:
        self.method = shown(self.method, _LONGEST_METHOD)
        self.path = shown(self.path, _LONGEST_PATH)

    def of_part(self, number: int) -> RequestRecord:
        """The record of an utterance of its own, whose id is this one's and the number."""
        name = f"{self.id}.{number}"
        return RequestRecord(name, self.method, self.path, self.traceparent, self.client, self.owner, part=True)

    @property
    def is_speech(self) -> bool:
        """Whether it asked for speech."""
        return (self.method, self.path) in _SPEECH_REQUESTS

    @property
    def is_session(self) -> bool:
        """Whether it is a live session, whose utterances have records of their own."""
        return self.method == WEBSOCKET and not self.part

    @property
    def outcome(self) -> str:
        """One word for how it ended, or "running"."""
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
        """How long it took, or takes already."""
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    @property
    def audio_seconds(self) -> float:
        """Speech made for it."""
        return self.samples / SAMPLE_RATE

    @property
    def real_time_factor(self) -> float | None:
        """Seconds the engine took for a second of speech, the listener's own time left out.

        Of live text there is none: the engine waits for the client, too.
        """
        return self.engine_seconds / self.audio_seconds if self.samples and self.method != WEBSOCKET else None

    def sounded(self, silence: float) -> None:
        """The first audio that can be heard exists now, after ``silence`` seconds of samples."""
        self.first_audio = time.monotonic() - self.started
        self.onset = self.first_audio + silence / self.speed

    def gave(self, samples: int) -> None:
        """Samples go out."""
        self.samples += samples
        if self.playback is not None:
            self.playback.gave(samples / SAMPLE_RATE / self.speed)

    def held_up(self, seconds: float) -> None:
        """The client took so long to take what was sent."""
        if self.playback is not None:
            self.playback.held_up(seconds)

    def includes(self, part: RequestRecord) -> None:
        """``part`` is over. Its task is that of the first, its voice that of all where they have the same."""
        self.parts += 1
        if part.task is None:
            return
        self.voice = part.voice if self.task is None or self.voice == part.voice else None
        self.task = self.task or part.task
        self.characters = (self.characters or 0) + (part.characters or 0)
        self.samples += part.samples
        self.engine_seconds += part.engine_seconds

    def failed(self, error: BaseException) -> None:
        """The request ended in ``error``, before or after its status line."""
        failure = failure_of(error)
        self.failure = failure.code or shown(failure.message, _LONGEST_FAILURE)
        self.param = failure.param
        if failure.status == CLIENT_DISCONNECTED:
            self.status = CLIENT_DISCONNECTED

    def settled(self, error: BaseException | None) -> None:
        """What has no status line of its own is over, in ``error`` or well: as if it had been answered with one."""
        if error is not None:
            self.failed(error)
        self.status = 200 if error is None else failure_of(error).status

    def facts(self) -> dict[str, Fact]:
        """Everything by its name, in a fixed order; what did not happen is left out."""
        facts = {
            "id": self.id,
            "status": self.status,
            "outcome": self.outcome,
            "task": self.task,
            "voice": self.voice,
            "characters": self.characters,
            "seconds": self.seconds,
            "first_audio": self.first_audio,
            "onset": self.onset,
            "audio": self.audio_seconds or None,
            "rtf": self.real_time_factor,
            "underruns": self.playback.underruns if self.playback and self.samples else None,
            "finish": None if self.completion is None else self.completion.finish_reason.value,
            "error": self.failure,
            "param": self.param,
        }
        return {name: _rounded(fact) for name, fact in facts.items() if fact is not None}


def _rounded(fact: Fact) -> Fact:
    return round(fact, 3) if isinstance(fact, float) else fact
