"""The beginning of an utterance: holds back the silence before its first sound, and trims it."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE, AudioChunk
from engine.protocol.samples import FULL_SCALE, audible

BLOCK = SAMPLE_RATE // 100
"""Samples whose loudness is measured together (10 ms)."""
_LOUD = 10 ** (-50 / 20) * FULL_SCALE
"""-50 dBFS: blocks with a higher root mean square are sound. Breath is, the noise of the codec is not."""
_LONGEST_PAUSE = SAMPLE_RATE
"""Number of samples in which a clone in context must exceed -50 dBFS; otherwise its speech may be that quiet."""

Samples = NDArray[np.int16]


class Onset(NamedTuple):
    """How the audio of an utterance begins.

    find: returns the number of samples before the first sound; the number of all samples if there is none yet.
    kept: maximum number of samples to keep before the first sound; None for all.
    """

    find: Callable[[Samples], int]
    kept: int | None

    def cut(self, samples: Samples) -> Samples:
        """Return a whole utterance without the silence that is not kept."""
        start = self.find(samples)
        return samples if start == len(samples) else self.cut_at(samples, start)

    def cut_at(self, samples: Samples, start: int) -> Samples:
        """Return ``samples`` whose first sound is at ``start``, without the silence that is not kept."""
        return samples if self.kept is None else samples[max(0, start - self.kept) :]


def sound(samples: Samples) -> tuple[int, int]:
    """Return the indices of the first sample of sound and of the sample after the last one; (length, 0) if none."""
    whole = -(-len(samples) // BLOCK) * BLOCK
    blocks = np.zeros(whole, np.float32)
    blocks[: len(samples)] = samples
    loud = np.flatnonzero(np.square(blocks.reshape(-1, BLOCK)).mean(axis=1) > _LOUD**2)
    if not len(loud):
        return len(samples), 0
    return int(loud[0]) * BLOCK, min(len(samples), (int(loud[-1]) + 1) * BLOCK)


def silence_before(samples: Samples) -> int:
    """Return the number of samples before the first audible one; that of all samples if none is audible."""
    heard = audible(samples)
    return int(np.argmax(heard)) if heard.any() else len(samples)


def _pause_before(samples: Samples) -> int:
    """Return the number of samples before the first sound above -50 dBFS. A reference's last sound decays below."""
    beginning = samples[:_LONGEST_PAUSE]
    pause = sound(beginning)[0]
    return pause if pause < len(beginning) or len(samples) < _LONGEST_PAUSE else silence_before(samples)


AS_MADE = Onset(silence_before, None)
TRIMMED = Onset(silence_before, SAMPLE_RATE // 50)
"""Keeps 20 ms, so that the first sound is not cut."""
AFTER_REFERENCE = Onset(_pause_before, SAMPLE_RATE // 10)
"""For a clone in context, which continues its reference: it would begin with a pause of up to 0.5 s."""


async def from_onset(chunks: AsyncIterable[AudioChunk], onset: Onset) -> AsyncIterator[Samples]:
    """Yield the samples of ``chunks``, and nothing before the first sound; its silence is part of the first item.

    An utterance without sound is yielded as one item at its end.
    """
    leading: list[Samples] = []
    audible_so_far = heard = False
    async for chunk in chunks:
        if heard:
            yield chunk.samples
            continue
        leading.append(chunk.samples)
        audible_so_far = audible_so_far or bool(audible(chunk.samples).any())
        if not audible_so_far:
            continue
        samples = np.concatenate(leading)
        start = onset.find(samples)
        heard = start < len(samples)
        if heard:
            yield onset.cut_at(samples, start)
    if not heard and leading:
        yield np.concatenate(leading)
