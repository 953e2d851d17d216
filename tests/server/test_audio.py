"""Detection of the first audio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE, AudioChunk
from engine.protocol.samples import AUDIBLE
from server.audio.onset import AFTER_REFERENCE, AS_MADE, TRIMMED, Onset, from_onset

FRAME = 1920
KEPT = TRIMMED.kept or 0


def noise(samples: int, seed: int = 0) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-16_000, 16_000, samples, np.int16)


def quiet(samples: int) -> NDArray[np.int16]:
    return np.full(samples, 3, np.int16)


async def chunks(*blocks: NDArray[np.int16]) -> AsyncIterator[AudioChunk]:
    for block in blocks:
        yield AudioChunk(block, np.zeros((len(block) // FRAME, 16), np.int16))


async def collect(*blocks: NDArray[np.int16], onset: Onset = AS_MADE) -> list[NDArray[np.int16]]:
    return [block async for block in from_onset(chunks(*blocks), onset)]


async def test_silence_is_joined_with_the_first_audio_and_no_sample_is_lost() -> None:
    blocks = [quiet(FRAME), quiet(FRAME), noise(FRAME), quiet(FRAME), noise(FRAME)]
    items = await collect(*blocks)
    assert [len(item) for item in items] == [3 * FRAME, FRAME, FRAME]
    assert np.concatenate(items).tobytes() == np.concatenate(blocks).tobytes()


async def test_trimming_keeps_a_short_pre_roll() -> None:
    first = quiet(FRAME)
    first[-100:] = noise(100) // 2 + 20_000
    items = await collect(quiet(FRAME), first, noise(FRAME), onset=TRIMMED)
    assert [len(item) for item in items] == [KEPT + 100, FRAME]


async def test_trimming_removes_faint_noise_up_to_the_pre_roll() -> None:
    """Digital silence, then noise below -60 dBFS, then a tone that fades in, as speech begins."""
    time = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    swelling = (16_000 * np.minimum(1, 8 * time) * np.sin(2 * np.pi * 150 * time)).astype(np.int16)
    whole = np.concatenate([np.zeros(3 * FRAME, np.int16), noise(2 * FRAME) // 1000, swelling])
    blocks = np.split(whole, range(FRAME, len(whole), FRAME))
    trimmed = np.concatenate(await collect(*blocks, onset=TRIMMED))
    dropped = whole[: len(whole) - len(trimmed)]
    assert whole.tobytes().endswith(trimmed.tobytes())
    assert 4 * FRAME < len(dropped) < 5 * FRAME + SAMPLE_RATE // 10
    assert np.abs(dropped).max() <= AUDIBLE
    assert np.abs(trimmed[:KEPT]).max() <= AUDIBLE < np.abs(trimmed[KEPT])
    assert np.concatenate(await collect(*blocks)).tobytes() == whole.tobytes()


async def test_trimming_removes_nothing_if_audio_starts_immediately() -> None:
    loud = noise(FRAME) // 2 + 20_000
    assert (await collect(loud, onset=TRIMMED))[0].tobytes() == loud.tobytes()


@pytest.mark.parametrize("onset", [AS_MADE, TRIMMED, AFTER_REFERENCE])
async def test_a_silent_stream_is_delivered_completely(onset: Onset) -> None:
    items = await collect(quiet(FRAME), quiet(FRAME), onset=onset)
    assert [len(item) for item in items] == [2 * FRAME]


def fading(samples: int) -> NDArray[np.int16]:
    """The decay of a sound: from -50 to -64 dBFS."""
    return (noise(samples) / 16_000 * np.geomspace(100, 20, samples)).astype(np.int16)


async def test_after_a_reference_its_decay_and_the_pause_are_trimmed() -> None:
    items = await collect(fading(3 * FRAME), quiet(3 * FRAME), noise(FRAME), noise(FRAME), onset=AFTER_REFERENCE)
    assert [len(item) for item in items] == [SAMPLE_RATE // 10 + FRAME, FRAME]
    assert items[0][-FRAME:].tobytes() == noise(FRAME).tobytes()


async def test_after_a_reference_quiet_speech_is_not_held_back_for_long() -> None:
    murmur = noise(FRAME) // 400
    items = await collect(*[murmur] * 40, onset=AFTER_REFERENCE)
    assert [len(item) for item in items] == [13 * FRAME, *[FRAME] * 27]


async def test_no_chunks_give_no_items() -> None:
    assert await collect() == []
