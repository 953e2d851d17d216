"""The first sound: nothing leaves before there is something to hear."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import numpy as np
from numpy.typing import NDArray

from engine.request import SAMPLE_RATE, AudioChunk
from engine.samples import FULL_SCALE

AUDIBLE = FULL_SCALE // 1000
"""-60 dBFS: a sample beyond it can be heard."""
PRE_ROLL = SAMPLE_RATE // 50
"""Samples kept before the first audible one when silence is trimmed (20 ms), so that no onset is cut."""


async def from_first_sound(chunks: AsyncIterable[AudioChunk], trim: bool) -> AsyncIterator[NDArray[np.int16]]:
    """The samples of ``chunks``, the first item only once it can be heard.

    What was silent before comes with the first item, or only its last ``PRE_ROLL`` samples when ``trim``.
    An utterance that is silent to its end is one item, whole.
    """
    held: list[NDArray[np.int16]] = []
    audible = False
    async for chunk in chunks:
        if audible:
            yield chunk.samples
            continue
        held.append(chunk.samples)
        audible = bool(_audible(chunk.samples).any())
        if audible:
            yield _from_onset(held) if trim else np.concatenate(held)
    if not audible and held:
        yield np.concatenate(held)


def silence_before(samples: NDArray[np.int16]) -> int:
    """Samples before the first one that can be heard; 0 where there is none."""
    return int(np.argmax(_audible(samples))) if len(samples) else 0


def _audible(samples: NDArray[np.int16]) -> NDArray[np.bool_]:
    return (samples > AUDIBLE) | (samples < -AUDIBLE)


def _from_onset(held: list[NDArray[np.int16]]) -> NDArray[np.int16]:
    samples = np.concatenate(held)
    return samples[max(0, silence_before(samples) - PRE_ROLL) :]
