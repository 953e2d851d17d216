"""Measures the speed of a server on two cores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from scripts.judge.exam import MAIN_VOICES
from scripts.judge.serving import ServedCheckpoint
from scripts.judge.streams import StreamRequest, stream_concurrently, stream_speech

_CORES = 2
_MAX_STREAMS = 8
_LONG_CHARACTERS = 110
_BUFFER_S = 0.1
"""Buffer of the players."""


@dataclass(frozen=True)
class Speed:
    """The results, in seconds. streams: number of concurrent streams without an underrun, up to eight."""

    ready_s: float
    first_audible_s: float
    real_time_factor: float
    streams: int


def measure(checkpoint: Path, sentences: Sequence[str], requests: int, log: Path) -> Speed:
    """Start a server and measure it. The first two requests are a warm-up."""
    with _on_two_cores(), ServedCheckpoint(checkpoint, log) as server:
        single = [stream_speech(server, request) for request in islice(_requests(sentences), requests + 2)][2:]
        return Speed(
            ready_s=server.ready_s,
            first_audible_s=median(each.first_audible_s for each in single),
            real_time_factor=median(each.real_time_factor for each in single),
            streams=_sustained_streams(server, _long_texts(sentences)),
        )


def _sustained_streams(server: ServedCheckpoint, texts: Sequence[str]) -> int:
    for count in range(1, _MAX_STREAMS + 1):
        results = stream_concurrently(server, list(islice(_requests(texts), count)))
        if max(each.longest_underrun_s for each in results) > _BUFFER_S:
            return count - 1
    return _MAX_STREAMS


def _requests(texts: Sequence[str]) -> Iterator[StreamRequest]:
    for seed, (text, voice) in enumerate(zip(cycle(texts), cycle(MAIN_VOICES), strict=False)):
        yield StreamRequest(text, voice, seed)


def _long_texts(sentences: Sequence[str]) -> list[str]:
    """Join sentences to texts of some seconds each."""
    texts, text = [], ""
    for sentence in sentences:
        text = f"{text} {sentence}".strip()
        if len(text) >= _LONG_CHARACTERS:
            texts.append(text)
            text = ""
    return texts or [text]


@contextmanager
def _on_two_cores() -> Iterator[None]:
    """Restrict this process and its children to two of its cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:_CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
