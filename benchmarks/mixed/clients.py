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
from benchmarks.mixed.samples import SILENCE, Likeness
from engine.client.client import EngineClient
from engine.client.stream import SpeechStream
from engine.errors import EngineError
from engine.protocol.request import CODEBOOKS, AudioChunk, FinishReason

MANNERS = {"to the end": 6, "hangs up": 2, "hangs up at once": 1, "takes its time": 1}
"""Client behaviors and their weights."""
_BATCH = 4
_NOTHING = np.zeros((0, CODEBOOKS), np.int16)


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """The result of one request for a line.

    line: index of the line. manner: behavior of the client.
    whole: whether it was read to its end.
    first, gap: seconds until the first chunk, and the longest time between two chunks; NaN if there were none, and
        ``gap`` also if the client or the text was slow.
    likeness: see ``Likeness``; NaN if nothing was compared.
    """

    line: int
    manner: str
    codes: NDArray[np.int16]
    whole: bool
    first: float
    gap: float
    likeness: float = float("nan")
    error: str = ""


@dataclass
class Crowd:
    """Runs clients of ``engine`` that request ``lines``, and collects their results.

    own: line -> its first response.
    """

    engine: EngineClient
    lines: Sequence[Line]
    heard: list[Heard] = field(default_factory=list)
    manners: Counter[str] = field(default_factory=Counter)
    own: dict[int, AudioChunk] = field(default_factory=dict)

    async def alone(self) -> list[Heard]:
        """Request every line to its end, one after the other."""
        return [await self.hear(number, "to the end", Random(number)) for number in range(len(self.lines))]

    async def together(self, listeners: int, seconds: float, seed: int) -> None:
        """Run ``listeners`` concurrent clients for ``seconds``; each requests one random line after the other."""
        ends = time.monotonic() + seconds
        await asyncio.gather(*(self._listener(Random(f"{seed} {number}"), ends) for number in range(listeners)))

    async def _listener(self, random: Random, ends: float) -> None:
        await asyncio.sleep(random.random())
        while time.monotonic() < ends:
            number = random.randrange(len(self.lines))
            if self.lines[number].kind == "batch":
                same = [each for each, line in enumerate(self.lines) if line.kind == "batch"]
                await asyncio.gather(*(self._one(each, random) for each in random.choices(same, k=_BATCH)))
            else:
                await self._one(number, random)

    async def _one(self, number: int, random: Random) -> None:
        manner = random.choices(list(MANNERS), list(MANNERS.values()))[0]
        self.manners[manner] += 1
        self.heard.append(await self.hear(number, manner, random))

    async def hear(self, number: int, manner: str, random: Random) -> Heard:
        """Request one line with the behavior ``manner``."""
        line = self.lines[number]
        request = replace(line.request, text=line.pieces[0]) if line.pieces else line.request
        asked = time.monotonic()
        stream = self.engine.submit(request)
        feeding = asyncio.create_task(_feed(stream, line.pieces[1:], random)) if line.pieces else None
        leaves = _leaves(manner, random)
        chunks: list[AudioChunk] = []
        likeness = Likeness(self.own[number]) if number in self.own else None
        moments: list[float] = []
        error, whole = "", False
        try:
            if manner == "hangs up at once":
                await asyncio.sleep(random.uniform(0, 0.05))
                stream.cancel()
            async for chunk in stream:
                moments.append(time.monotonic())
                chunks.append(chunk if likeness is None else likeness.heard(chunk))
                if len(chunks) == leaves:
                    stream.cancel()
                if manner == "takes its time":
                    await asyncio.sleep(random.uniform(0, 0.5))
            left = manner == "hangs up at once" or (leaves is not None and len(chunks) >= leaves)
            whole = not left and stream.completion.finish_reason is not FinishReason.CANCELLED
        except EngineError as failure:
            error = str(failure)
        finally:
            if feeding is not None:
                feeding.cancel()
        codes = np.concatenate([_NOTHING, *(chunk.codes for chunk in chunks)])
        if likeness is None:
            self.own[number] = AudioChunk(np.concatenate([SILENCE, *(chunk.samples for chunk in chunks)]), codes)
        paced = manner == "takes its time" or bool(line.pieces)
        return Heard(
            number,
            manner,
            codes,
            whole,
            moments[0] - asked if moments else float("nan"),
            float("nan") if paced or len(moments) < 2 else float(np.diff(moments).max()),
            float("nan") if likeness is None else likeness.decibels,
            error,
        )


def _leaves(manner: str, random: Random) -> int | None:
    """Return the number of chunks after which the client cancels, or None."""
    return random.randint(1, 6) if manner == "hangs up" else None


async def _feed(stream: SpeechStream, pieces: Sequence[str], random: Random) -> None:
    for index, piece in enumerate(pieces):
        await asyncio.sleep(random.uniform(0, 0.03))
        stream.append(piece, last=index == len(pieces) - 1)
