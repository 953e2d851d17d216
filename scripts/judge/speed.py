"""How fast a server answers on two cores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from scripts.judge.exam import MAIN_VOICES
from scripts.judge.listening import Line, listen, listen_together
from scripts.judge.serving import Serving

_CORES = 2
_MOST_STREAMS = 8
_LONG_CHARACTERS = 110
_GRACE_S = 0.1
"""What players buffer before they begin."""


@dataclass(frozen=True)
class Speed:
    """streams: how many together never let a player wait, up to eight; the rest in seconds."""

    ready_s: float
    first_audible_s: float
    real_time_factor: float
    streams: int


def measure(checkpoint: Path, sentences: Sequence[str], requests: int, log: Path) -> Speed:
    """Start a server and listen to it; two requests beforehand are not counted."""
    with _on_two_cores(), Serving(checkpoint, log) as server:
        single = [listen(server, line) for line in islice(_lines(sentences), requests + 2)][2:]
        return Speed(
            ready_s=server.ready_s,
            first_audible_s=median(each.first_audible_s for each in single),
            real_time_factor=median(each.real_time_factor for each in single),
            streams=_streams_held(server, _long_texts(sentences)),
        )


def _streams_held(server: Serving, texts: Sequence[str]) -> int:
    for count in range(1, _MOST_STREAMS + 1):
        heard = listen_together(server, list(islice(_lines(texts), count)))
        if max(each.starved_s for each in heard) > _GRACE_S:
            return count - 1
    return _MOST_STREAMS


def _lines(texts: Sequence[str]) -> Iterator[Line]:
    for seed, (text, voice) in enumerate(zip(cycle(texts), cycle(MAIN_VOICES), strict=False)):
        yield Line(text, voice, seed)


def _long_texts(sentences: Sequence[str]) -> list[str]:
    """Sentences joined until each text takes some seconds."""
    texts, text = [], ""
    for sentence in sentences:
        text = f"{text} {sentence}".strip()
        if len(text) >= _LONG_CHARACTERS:
            texts.append(text)
            text = ""
    return texts or [text]


@contextmanager
def _on_two_cores() -> Iterator[None]:
    """This process, and those that it starts, on two of the cores that it may use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:_CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
