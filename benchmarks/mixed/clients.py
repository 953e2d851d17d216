"""Listeners of every kind at once: who hear it out, hang up at some point, take their time, or want a whole batch."""

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
"""How a line is listened to, and how often."""
_BATCH = 4
_NOTHING = np.zeros((0, CODEBOOKS), np.int16)


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What came of a line.

    whole: it was heard to its end. first, gap: seconds to the first chunk, and the longest between two (NaN where the
    listener or the text was slow, or there were none). likeness: see ``Likeness``; NaN where nothing was compared.
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
    """What all listeners of ``engine`` have heard of ``lines`` so far. own: of each what it was the first time."""

    engine: EngineClient
    lines: Sequence[Line]
    heard: list[Heard] = field(default_factory=list)
    manners: Counter[str] = field(default_factory=Counter)
    own: dict[int, AudioChunk] = field(default_factory=dict)

    async def alone(self) -> list[Heard]:
        """Every line to its end, one after the other."""
        return [await self.hear(number, "to the end", Random(number)) for number in range(len(self.lines))]

    async def together(self, listeners: int, seconds: float, seed: int) -> None:
        """``listeners`` at a time, for so long; each takes line after line."""
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
        """One line."""
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
    """The chunk after which the listener hangs up."""
    return random.randint(1, 6) if manner == "hangs up" else None


async def _feed(stream: SpeechStream, pieces: Sequence[str], random: Random) -> None:
    for index, piece in enumerate(pieces):
        await asyncio.sleep(random.uniform(0, 0.03))
        stream.append(piece, last=index == len(pieces) - 1)
