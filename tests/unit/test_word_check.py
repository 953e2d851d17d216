"""Speech with missing or repeated words is made again while it is unheard, and is never refused for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from benchmarks.lib.timed_speech import read_timed_speech
from engine.protocol.request import CODEBOOKS, SAMPLES_PER_FRAME, AudioChunk, SamplingParams, SpeechRequest, Voice
from engine.protocol.speech_profile import SpeechProfile
from server.guards.guard import Guard
from server.guards.stream import GuardedStream
from server.guards.words import WordCheck
from server.telemetry.record import Playback, RequestRecord
from tests.support.scripted_engine import PACE, ScriptedEngine, Take, info, silent

RECORDING = next(each for each in read_timed_speech() if each.text.startswith("We are looking forward"))
PROFILE = SpeechProfile(text_steps=("normalize",), languages=("english",), characters_per_second=PACE)
Samples = np.ndarray
TIMEOUT = 20


@dataclass(frozen=True)
class Recorded(Take):
    """An attempt that delivers a recording."""

    samples: Samples | None = None

    def chunks(self, seed: int) -> list[AudioChunk]:
        assert self.samples is not None
        codes = np.arange(self.frames * CODEBOOKS, dtype=np.int16).reshape(-1, CODEBOOKS)
        pairs = zip(self.samples.reshape(self.frames, -1), codes[:, None], strict=True)
        return [AudioChunk(samples, code) for samples, code in pairs]


def recorded(samples: Samples) -> Callable[[str], Take]:
    frames = -(-len(samples) // SAMPLES_PER_FRAME)
    padded = np.pad(samples, (0, frames * SAMPLES_PER_FRAME - len(samples)))
    return lambda text: Recorded(frames, samples=padded)


def without_words(*words: int) -> Samples:
    """The recording without some of its words."""
    starts = [int(24000 * start) for start, _ in RECORDING.times]
    return np.delete(RECORDING.samples, np.concatenate([np.arange(starts[w], starts[w + 1]) for w in words]))


def twice(first: int, last: int) -> Samples:
    """The recording with some of its words spoken twice."""
    start, end = (int(24000 * RECORDING.times[word][0]) for word in (first, last))
    return np.concatenate([RECORDING.samples[:end], RECORDING.samples[start:]])


GOOD, ONE_MISSING, MANY_MISSING, REPEATED = map(
    recorded, (RECORDING.samples, without_words(2), without_words(2, 3, 6), twice(1, 4))
)


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def speech_request(**fields: Any) -> SpeechRequest:
    values: dict[str, Any] = {"text": RECORDING.text, "speaker": "ava", "realtime": False}
    return SpeechRequest(**(values | {"sampling": SamplingParams(seed=7)} | fields))


def submit(engine: ScriptedEngine, thread: ThreadPoolExecutor, record: RequestRecord, **fields: Any) -> GuardedStream:
    engine.info = info(profile=PROFILE)
    return Guard(engine, record, WordCheck(thread)).submit(speech_request(**fields))


async def read(stream: GuardedStream) -> Samples:
    return np.concatenate([chunk.samples async for chunk in stream])


def samples_of(script: Callable[[str], Take]) -> Samples:
    return np.concatenate([chunk.samples for chunk in script("").chunks(0)])


@pytest.mark.parametrize("faulty", [ONE_MISSING, MANY_MISSING, REPEATED], ids=["missing", "many missing", "repeated"])
async def test_speech_with_wrong_words_is_made_again(faulty, thread) -> None:
    record, engine = RequestRecord("r"), ScriptedEngine([faulty, GOOD])
    assert np.array_equal(await read(submit(engine, thread, record)), samples_of(GOOD))
    assert record.retries == {"words": 1}
    assert record.fault is None


async def test_good_speech_is_made_once(thread) -> None:
    record, engine = RequestRecord("r"), ScriptedEngine([GOOD])
    assert np.array_equal(await read(submit(engine, thread, record)), samples_of(GOOD))
    assert record.retries == {}


@pytest.mark.parametrize(
    "attempts",
    [
        (MANY_MISSING, ONE_MISSING, MANY_MISSING, MANY_MISSING, ONE_MISSING),
        (ONE_MISSING, MANY_MISSING, MANY_MISSING, MANY_MISSING, MANY_MISSING),
        (ONE_MISSING, MANY_MISSING, silent),
    ],
    ids=["second", "first", "first, before silence"],
)
async def test_when_all_attempts_have_wrong_words_the_best_one_is_sent(attempts, thread) -> None:
    record, engine = RequestRecord("r"), ScriptedEngine(attempts)
    assert np.array_equal(await read(submit(engine, thread, record)), samples_of(ONE_MISSING))
    assert len(engine.streams) == len(attempts)
    assert record.fault is None


async def test_the_voice_of_a_clone_stays_the_same(thread) -> None:
    voice = Voice(np.ones(4, np.float32), np.zeros((30, CODEBOOKS), np.int16), "Hello.")
    engine = ScriptedEngine([MANY_MISSING] * 5)
    await read(submit(engine, thread, RequestRecord("r"), speaker=None, voice=voice))
    assert [each.request.voice for each in engine.streams] == [voice] * 5


async def test_speech_that_another_seed_would_not_change_is_sent_as_it_is(thread) -> None:
    engine = ScriptedEngine([ONE_MISSING])
    sampling = SamplingParams(temperature=0, subtalker_temperature=0)
    assert np.array_equal(
        await read(submit(engine, thread, RequestRecord("r"), sampling=sampling)), samples_of(ONE_MISSING)
    )


async def test_the_first_piece_of_a_stream_does_not_wait(thread) -> None:
    record, engine = RequestRecord("r", playback=Playback()), ScriptedEngine([ONE_MISSING])
    assert np.array_equal(await read(submit(engine, thread, record, realtime=True)), samples_of(ONE_MISSING))
    assert record.retries == {}


async def test_audio_leaves_unchecked_before_the_client_has_an_underrun(thread) -> None:
    playback = Playback(lambda: 0.0)
    playback.add_audio(0.6)  # a tenth of a second more than must be left to play
    record, engine = RequestRecord("r", playback=playback), ScriptedEngine([ONE_MISSING])
    released = threading.Event()
    blocked = thread.submit(released.wait, TIMEOUT)
    try:
        samples = await read(submit(engine, thread, record, realtime=True))
    finally:
        released.set()
    assert np.array_equal(samples, samples_of(ONE_MISSING))
    assert blocked.result()


async def test_a_busy_aligner_is_not_waited_for(thread) -> None:
    released = threading.Event()
    blocked = thread.submit(released.wait, TIMEOUT)
    check = WordCheck(thread)
    check._waiting = 4
    try:
        assert await check.faults(RECORDING.text, ONE_MISSING("").chunks(0)) == 0
    finally:
        released.set()
    assert blocked.result()


@pytest.mark.parametrize(
    ("fields", "profile"),
    [
        ({"text": "Hello there, you."}, PROFILE),
        ({"text": "The total is $20 for the two of you."}, PROFILE),
        ({"text": "Ich weiß nicht, wo der Bahnhof ist.", "language": "german"}, PROFILE),
        ({"text": "word " * 300}, PROFILE),
        ({}, SpeechProfile(characters_per_second=PACE)),
    ],
    ids=["very short", "digits and symbols", "another language", "very long", "a checkpoint of raw text"],
)
def test_what_the_aligner_cannot_judge_is_not_checked(fields, profile) -> None:
    assert WordCheck.applies(speech_request(), PROFILE)
    assert not WordCheck.applies(speech_request(**fields), profile)
