"""Detection of the first audio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE, AudioChunk
from engine.protocol.samples import AUDIBLE
from server.audio.pipeline import PRE_ROLL, from_first_audio

FRAME = 1920


def noise(samples: int, seed: int = 0) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-16_000, 16_000, samples, np.int16)


def quiet(samples: int) -> NDArray[np.int16]:
    return np.full(samples, 3, np.int16)


async def chunks(*blocks: NDArray[np.int16]) -> AsyncIterator[AudioChunk]:
    for block in blocks:
        yield AudioChunk(block, np.zeros((len(block) // FRAME, 16), np.int16))


async def collect(*blocks: NDArray[np.int16], trim: bool = False) -> list[NDArray[np.int16]]:
    return [block async for block in from_first_audio(chunks(*blocks), trim)]


async def test_silence_is_joined_with_the_first_audio_and_no_sample_is_lost() -> None:
    blocks = [quiet(FRAME), quiet(FRAME), noise(FRAME), quiet(FRAME), noise(FRAME)]
    items = await collect(*blocks)
    assert [len(item) for item in items] == [3 * FRAME, FRAME, FRAME]
    assert np.concatenate(items).tobytes() == np.concatenate(blocks).tobytes()


async def test_trimming_keeps_a_short_pre_roll() -> None:
    first = quiet(FRAME)
    first[-100:] = noise(100) // 2 + 20_000
    items = await collect(quiet(FRAME), first, noise(FRAME), trim=True)
    assert [len(item) for item in items] == [PRE_ROLL + 100, FRAME]


async def test_trimming_removes_faint_noise_up_to_the_pre_roll() -> None:
    """Digital silence, then noise below -60 dBFS, then a tone that fades in, as speech begins."""
    time = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    swelling = (16_000 * np.minimum(1, 8 * time) * np.sin(2 * np.pi * 150 * time)).astype(np.int16)
    whole = np.concatenate([np.zeros(3 * FRAME, np.int16), noise(2 * FRAME) // 1000, swelling])
    blocks = np.split(whole, range(FRAME, len(whole), FRAME))
    trimmed = np.concatenate(await collect(*blocks, trim=True))
    dropped = whole[: len(whole) - len(trimmed)]
    assert whole.tobytes().endswith(trimmed.tobytes())
    assert 4 * FRAME < len(dropped) < 5 * FRAME + SAMPLE_RATE // 10
    assert np.abs(dropped).max() <= AUDIBLE
    assert np.abs(trimmed[:PRE_ROLL]).max() <= AUDIBLE < np.abs(trimmed[PRE_ROLL])
    assert np.concatenate(await collect(*blocks)).tobytes() == whole.tobytes()


async def test_trimming_removes_nothing_if_audio_starts_immediately() -> None:
    loud = noise(FRAME) // 2 + 20_000
    assert (await collect(loud, trim=True))[0].tobytes() == loud.tobytes()


@pytest.mark.parametrize("trim", [False, True])
async def test_a_silent_stream_is_delivered_completely(trim: bool) -> None:
    items = await collect(quiet(FRAME), quiet(FRAME), trim=trim)
    assert [len(item) for item in items] == [2 * FRAME]


async def test_no_chunks_give_no_items() -> None:
    assert await collect() == []
