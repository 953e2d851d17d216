"""Workloads: which texts and voices are requested, and when requests start."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

SENTENCES = (
    "The train to the coast leaves at nine, so we should be at the station by half past eight.",
    "She opened the window and listened to the rain on the roof.",
    "Please remember to bring the blue folder to the meeting tomorrow morning.",
    "A small bakery on the corner sells the best bread in town.",
    "The committee will publish its report before the end of the month.",
    "He walked along the river until the lights of the city disappeared.",
    "Your order has been shipped and should arrive within three working days.",
    "We measured the temperature twice, and both readings were the same.",
    "The museum is closed on Mondays, but the garden stays open all week.",
    "If you need more time, just send me a message before noon.",
    "The old bridge was built from stone that came from the next valley.",
    "I have never seen a sky as clear as the one above the desert.",
    "Turn left after the library and you will see the entrance on your right.",
    "The children planted two trees behind the school last spring.",
    "Most of the noise came from the engine, not from the wind.",
    "Thank you for calling, how can I help you today?",
    "The first chapter explains why the experiment failed so often.",
    "They agreed to meet again when the results were ready.",
    "Coffee tastes better when the water is not quite boiling.",
    "The pilot told us that we would land a few minutes early.",
)


def read_texts(path: Path) -> tuple[str, ...]:
    """Read texts from a file, one per non-empty line. Raises OSError, or ValueError when there is no text."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None
    texts = tuple(line.strip() for line in lines if line.strip())
    if not texts:
        raise ValueError(f"{path}: contains no text")
    return texts


VOICE_HEADER = "X-Sonant-Voice"
"""Header by which load balancers send requests for one voice to one server. The server does not read it."""

FRAMES_PER_CHARACTER = 0.85
"""Estimated codec frames (80 ms each) per character of text."""
_MIN_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """Creates the bodies of speech requests. Texts and voices rotate, and each request has its own seed.

    Attributes:
        texts: the texts, used in turn.
        voices: the voices, used in turn; none for the server's default voice.
        fields: added to every body. They override other fields; a value of None removes the field.
        frames: utterance length in frames, or ``"text"`` for ``FRAMES_PER_CHARACTER`` per character; None if the model
            decides.
        frames_field: the field in which ``frames`` is sent.
        first_seed: the seed of request 0; request n has ``first_seed + n``.
    """

    texts: Sequence[str]
    voices: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    frames: int | Literal["text"] | None = None
    frames_field: str = "max_new_tokens"
    first_seed: int = 1

    def body(self, number: int) -> bytes:
        """Return the JSON body of request ``number``."""
        body: dict[str, Any] = {
            "input": self._text(number),
            "response_format": "pcm",
            "stream": True,
            "seed": self.first_seed + number,
            self.frames_field: self.frames_of(number),
        }
        if self.voices:
            body["voice"] = self.voices[number % len(self.voices)]
        return json.dumps(
            {name: value for name, value in {**body, **self.fields}.items() if value is not None}
        ).encode()

    def headers(self, number: int) -> list[tuple[str, str]]:
        """Return the headers of request ``number``: its voice, by which load balancers select a server."""
        voice = self.fields.get("voice", self.voices[number % len(self.voices)] if self.voices else None)
        return [(VOICE_HEADER, quote(voice, safe=""))] if isinstance(voice, str) else []

    def frames_of(self, number: int) -> int | None:
        """Return the requested length of utterance ``number`` in frames, or None if the model decides."""
        if self.frames == "text":
            return max(_MIN_FRAMES, round(FRAMES_PER_CHARACTER * len(self._text(number))))
        return self.frames

    def _text(self, number: int) -> str:
        return self.texts[number % len(self.texts)]


def parse_frames(text: str | None) -> int | Literal["text"] | None:
    """Return the ``frames`` of a Workload for the value of a ``--frames`` option. Raises ValueError."""
    if text is None:
        return None
    if text == "text":
        return "text"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--frames must be a positive integer or 'text', got '{text}'")
    return int(text)


def recording_url(source: str) -> str:
    """Return the URL of a recording for a request: a URL unchanged, a file as a ``data:`` URL. Raises OSError."""
    if source.startswith(("http://", "https://", "data:", "file:")):
        return source
    return "data:audio/wav;base64," + base64.b64encode(Path(source).read_bytes()).decode()


@dataclass(frozen=True, slots=True)
class Open:
    """An open load: ``rate`` requests per second, regardless of how many are still in flight.

    It ends after ``requests`` requests or ``seconds``, whichever comes first. Arrivals are Poisson distributed with
    ``seed``, or evenly spaced if ``even``.
    """

    rate: float
    requests: int | None = None
    seconds: float | None = None
    even: bool = False
    seed: int = 7

    def __str__(self) -> str:
        return f"{self.rate:g} a second"

    def arrivals(self) -> Iterator[float]:
        """Yield the arrival time of each request, in seconds from the start; the first is 0."""
        for _, at in zip(_numbers(self.requests), self._times(), strict=False):
            if self.seconds is not None and at >= self.seconds:
                return
            yield at

    def _times(self) -> Iterator[float]:
        if self.even:
            return (number / self.rate for number in itertools.count())
        generator = random.Random(self.seed)
        return itertools.accumulate((generator.expovariate(self.rate) for _ in itertools.count()), initial=0.0)


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed load: ``at_once`` clients, each of which sends its next request as soon as it has its response.

    It ends after ``requests`` requests. No request is sent after ``seconds``.
    """

    at_once: int
    requests: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.at_once} at once"

    def numbers(self) -> Iterator[int]:
        """Return an iterator of request numbers that all clients share."""
        return iter(_numbers(self.requests))


@dataclass(frozen=True, slots=True)
class RealtimeClients:
    """A load of ``listeners`` real-time clients. Each sends its next request when it has played the whole response.

    Each client listens all the time, so N clients receive N seconds of audio per second. Their starts are spread evenly
    over ``spread`` seconds, about the length of a sentence. No request is sent after ``seconds``.
    """

    listeners: int
    requests: int | None = None
    seconds: float | None = None
    spread: float = 4.0

    def __str__(self) -> str:
        return f"{self.listeners} listeners"

    def numbers(self) -> Iterator[int]:
        """Return an iterator of request numbers that all clients share."""
        return iter(_numbers(self.requests))


Load = Open | Closed | RealtimeClients


def _numbers(count: int | None) -> Iterator[int]:
    return itertools.count() if count is None else iter(range(count))


_MIN_REQUESTS = 40
"""Minimum requests of a load. With fewer, the 95th percentile would be one of the two worst values."""


def open_load(rate: float, requests: int | None, seconds: float | None, *, even: bool, seed: int) -> Open:
    """Return an open load.

    Without ``requests`` and ``seconds`` it lasts 20 s, but has at least ``_MIN_REQUESTS`` requests.
    """
    if requests is None and seconds is None:
        requests = max(_MIN_REQUESTS, round(20 * rate))
    return Open(rate, requests, seconds, even, seed)


def closed_load(at_once: int, requests: int | None, seconds: float | None) -> Closed:
    """Return a closed load.

    Without ``requests`` and ``seconds`` it has four requests per client, but at least ``_MIN_REQUESTS``.
    """
    if requests is None and seconds is None:
        requests = max(_MIN_REQUESTS, 4 * at_once)
    return Closed(at_once, requests, seconds)


def realtime_load(listeners: int, requests: int | None, seconds: float | None) -> RealtimeClients:
    """Return a load of real-time clients. Without ``requests`` and ``seconds`` it lasts 20 s."""
    return RealtimeClients(listeners, requests, 20.0 if requests is None and seconds is None else seconds)


_PLANS: dict[str, tuple[Iterable[float], Iterable[int]]] = {
    "cpu": ((0.5, 1, 2), (1, 2, 4, 8)),
    "gpu": ((1, 6, 10, 20, 40), (1, 8, 32, 64, 128, 256)),
}
"""Plan name -> rates of the open loads, numbers of clients of the closed loads."""

PLANS = tuple(_PLANS)
"""The names of all plans."""


def planned(name: str, requests: int | None, seconds: float | None, *, even: bool, seed: int) -> list[Load]:
    """Return the loads of a plan, in ascending order: first the open loads, then the closed ones."""
    rates, counts = _PLANS[name]
    open_loads = [open_load(rate, requests, seconds, even=even, seed=seed) for rate in rates]
    return [*open_loads, *(closed_load(count, requests, seconds) for count in counts)]
