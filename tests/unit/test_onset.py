"""The beginning of an utterance: which silence is held back and removed, for any size of the chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE, AudioChunk
from server.audio.onset import AFTER_REFERENCE, AS_MADE, TRIMMED, Onset, from_onset

FRAME = 1920
Samples = NDArray[np.int16]


def tone(seconds: float, level: int) -> Samples:
    """Return a square wave."""
    return np.where(np.arange(round(seconds * SAMPLE_RATE)) % 100 < 50, level, -level).astype(np.int16)


def decay_and_pause(pause: float) -> Samples:
    """Return the audible decay of a reference, a pause, and a second of speech."""
    return np.concatenate((tone(0.2, 60), tone(pause - 0.2, 0), tone(1.0, 3000)))


async def streamed(samples: Samples, onset: Onset, size: int) -> list[Samples]:
    async def chunks() -> AsyncIterator[AudioChunk]:
        for start in range(0, len(samples), size):
            yield AudioChunk(samples[start : start + size], np.zeros((0, 16), np.int16))

    return [item async for item in from_onset(chunks(), onset)]


@pytest.mark.parametrize("size", [FRAME, 4 * FRAME, 12 * FRAME])
@pytest.mark.parametrize("pause", [0.3, 0.9, 1.1, 1.3, 3.0])
@pytest.mark.parametrize("onset", [AS_MADE, TRIMMED, AFTER_REFERENCE])
async def test_a_stream_begins_like_a_whole_utterance(onset: Onset, pause: float, size: int) -> None:
    samples = decay_and_pause(pause)
    assert np.array_equal(np.concatenate(await streamed(samples, onset, size)), onset.cut(samples))


@pytest.mark.parametrize(("pause", "kept"), [(0.3, 0.1), (0.9, 0.1), (1.1, 1.1)])
def test_the_pause_after_a_reference_is_cut_unless_the_speech_may_be_that_quiet(pause: float, kept: float) -> None:
    assert len(AFTER_REFERENCE.cut(decay_and_pause(pause))) == round((kept + 1.0) * SAMPLE_RATE)


@pytest.mark.parametrize("onset", [AS_MADE, TRIMMED, AFTER_REFERENCE])
async def test_silence_alone_is_delivered_at_its_end(onset: Onset) -> None:
    silence = np.zeros(30 * FRAME, np.int16)
    [item] = await streamed(silence, onset, FRAME)
    assert np.array_equal(item, silence)
