"""Concurrent clients of every kind: they read to the end, cancel at some point, read slowly, or request batches."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from benchmarks.mixed.lines import Line
from benchmarks.mixed.samples import NO_SAMPLES, SampleComparison
from engine.client.client import EngineClient
from engine.client.stream import SpeechStream
from engine.errors import EngineError
from engine.protocol.request import CODEBOOKS, AudioChunk, FinishReason

BEHAVIORS = {"reads to the end": 6, "cancels": 2, "cancels at once": 1, "reads slowly": 1}
"""Client behaviors and their relative frequencies."""
_BATCH = 4
_NO_CODES = np.zeros((0, CODEBOOKS), np.int16)


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """The result of one request for a line.

    line: index of the line. behavior: see ``BEHAVIORS``.
    complete: whether it was read to its end.
    first, gap: seconds until the first chunk, and the longest time between two chunks; NaN if there were none, and
        ``gap`` also if the client or the text was slow.
    snr_db, worst_frames: see ``SampleComparison``; NaN and empty if nothing was compared.
    """

    line: int
    behavior: str
    codes: NDArray[np.int16]
    complete: bool
    first: float
    gap: float
    snr_db: float = float("nan")
    worst_frames: range = range(0)
    error: str = ""


@dataclass
class Clients:
    """Runs clients of ``engine`` that request ``lines``, and collects their results.

    expected: line -> its first response.
    """

    engine: EngineClient
    lines: Sequence[Line]
    responses: list[Response] = field(default_factory=list)
    behaviors: Counter[str] = field(default_factory=Counter)
    expected: dict[int, AudioChunk] = field(default_factory=dict)

    async def alone(self) -> list[Response]:
        """Request every line to its end, one after the other."""
        return [await self.request(number, "reads to the end", Random(number)) for number in range(len(self.lines))]

    async def concurrently(self, clients: int, seconds: float, seed: int) -> None:
        """Run ``clients`` concurrent clients for ``seconds``; each requests one random line after the other."""
        deadline = time.monotonic() + seconds
        await asyncio.gather(*(self._client(Random(f"{seed} {number}"), deadline) for number in range(clients)))

    async def _client(self, random: Random, deadline: float) -> None:
        await asyncio.sleep(random.random())
        while time.monotonic() < deadline:
            number = random.randrange(len(self.lines))
            if self.lines[number].kind == "batch":
                same = [each for each, line in enumerate(self.lines) if line.kind == "batch"]
                await asyncio.gather(*(self._random_behavior(each, random) for each in random.choices(same, k=_BATCH)))
            else:
                await self._random_behavior(number, random)

    async def _random_behavior(self, number: int, random: Random) -> None:
        behavior = random.choices(list(BEHAVIORS), list(BEHAVIORS.values()))[0]
        self.behaviors[behavior] += 1
        self.responses.append(await self.request(number, behavior, random))

    async def request(self, number: int, behavior: str, random: Random) -> Response:
        """Request one line with the behavior ``behavior``."""
        line = self.lines[number]
        request = replace(line.request, text=line.pieces[0]) if line.pieces else line.request
        began = time.monotonic()
        stream = self.engine.submit(request)
        feed_task = asyncio.create_task(_feed(stream, line.pieces[1:], random)) if line.pieces else None
        cancel_after = _cancel_after(behavior, random)
        chunks: list[AudioChunk] = []
        comparison = SampleComparison(self.expected[number]) if number in self.expected else None
        chunk_times: list[float] = []
        error, complete = "", False
        try:
            if behavior == "cancels at once":
                await asyncio.sleep(random.uniform(0, 0.05))
                stream.cancel()
            async for chunk in stream:
                chunk_times.append(time.monotonic())
                chunks.append(chunk if comparison is None else comparison.add(chunk))
                if len(chunks) == cancel_after:
                    stream.cancel()
                if behavior == "reads slowly":
                    await asyncio.sleep(random.uniform(0, 0.5))
            cancelled = behavior == "cancels at once" or (cancel_after is not None and len(chunks) >= cancel_after)
            complete = not cancelled and stream.completion.finish_reason is not FinishReason.CANCELLED
        except EngineError as failure:
            error = str(failure)
        finally:
            if feed_task is not None:
                feed_task.cancel()
        codes = np.concatenate([_NO_CODES, *(chunk.codes for chunk in chunks)])
        if comparison is None:
            self.expected[number] = AudioChunk(
                np.concatenate([NO_SAMPLES, *(chunk.samples for chunk in chunks)]), codes
            )
        slow = behavior == "reads slowly" or bool(line.pieces)
        return Response(
            number,
            behavior,
            codes,
            complete,
            chunk_times[0] - began if chunk_times else float("nan"),
            float("nan") if slow or len(chunk_times) < 2 else float(np.diff(chunk_times).max()),
            float("nan") if comparison is None else comparison.snr_db,
            range(0) if comparison is None else comparison.worst_frames,
            error,
        )


def _cancel_after(behavior: str, random: Random) -> int | None:
    """Return the number of chunks after which the client cancels, or None."""
    return random.randint(1, 6) if behavior == "cancels" else None


async def _feed(stream: SpeechStream, pieces: Sequence[str], random: Random) -> None:
    for index, piece in enumerate(pieces):
        await asyncio.sleep(random.uniform(0, 0.03))
        stream.append(piece, last=index == len(pieces) - 1)
