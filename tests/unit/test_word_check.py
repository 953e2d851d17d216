"""Speech with missing or repeated words is made again while it is unheard, and is never refused for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineUnavailable
from engine.protocol.request import CODEBOOKS, FinishReason, SamplingParams, SpeechRequest, Voice
from engine.protocol.speech_profile import SpeechProfile
from server.guards.guard import Guard
from server.guards.stream import GuardedStream
from server.guards.words import WordCheck
from server.telemetry.record import Playback, RequestRecord
from tests.support.recorded_speech import (
    GOOD,
    MANY_MISSING,
    ONE_MISSING,
    PROFILE,
    RECORDING,
    REPEATED,
    Samples,
    changed,
    samples_of,
)
from tests.support.scripted_engine import PACE, ScriptedEngine, Take, info, silent

TIMEOUT = 20
IN_CONTEXT = Voice(np.ones(4, np.float32), np.zeros((30, CODEBOOKS), np.int16), "Hello.")


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@contextmanager
def blocked(thread: ThreadPoolExecutor) -> Iterator[threading.Event]:
    """Keep the thread busy until the event is set."""
    released = threading.Event()
    waiting: Future[bool] = thread.submit(released.wait, TIMEOUT)
    try:
        yield released
    finally:
        released.set()
        assert waiting.result()


def speech_request(**fields: Any) -> SpeechRequest:
    values: dict[str, Any] = {"text": RECORDING.text, "speaker": "ava", "realtime": False}
    return SpeechRequest(**(values | {"sampling": SamplingParams(seed=7)} | fields))


def submit(engine: ScriptedEngine, thread: ThreadPoolExecutor, record: RequestRecord, **fields: Any) -> GuardedStream:
    engine.info = info(profile=PROFILE)
    return Guard(engine, record, WordCheck(thread)).submit(speech_request(**fields))


async def read(stream: GuardedStream) -> Samples:
    return np.concatenate([chunk.samples async for chunk in stream])


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
        (MANY_MISSING, ONE_MISSING, MANY_MISSING),
        (ONE_MISSING, MANY_MISSING, MANY_MISSING),
        (ONE_MISSING, MANY_MISSING, silent),
        (ONE_MISSING, silent, silent),
    ],
    ids=["second", "first", "first, before silence", "first, before silence twice"],
)
async def test_when_no_attempt_is_good_the_one_with_the_fewest_wrong_words_is_sent(attempts, thread) -> None:
    record, engine = RequestRecord("r"), ScriptedEngine(attempts)
    stream = submit(engine, thread, record)
    assert np.array_equal(await read(stream), samples_of(ONE_MISSING))
    assert stream.completion.output_tokens == ONE_MISSING("").frames
    assert len(engine.streams) == 3
    assert record.fault is None


async def test_the_voice_of_a_clone_stays_the_same(thread) -> None:
    engine = ScriptedEngine([MANY_MISSING] * 3)
    await read(submit(engine, thread, RequestRecord("r"), speaker=None, voice=IN_CONTEXT))
    assert [each.request.voice for each in engine.streams] == [IN_CONTEXT] * 3


async def test_the_outcome_names_the_x_vector_only_if_its_attempt_is_sent(thread) -> None:
    for attempts, reference in (((ONE_MISSING, silent, silent), None), ((silent, silent, GOOD), "x-vector only")):
        record, engine = RequestRecord("r"), ScriptedEngine(attempts)
        await read(submit(engine, thread, record, speaker=None, voice=IN_CONTEXT))
        assert (record.reference or "").startswith(reference or "")
        assert (record.reference is None) == (reference is None)


async def test_speech_that_another_seed_would_not_change_is_sent_as_it_is(thread) -> None:
    engine = ScriptedEngine([ONE_MISSING])
    sampling = SamplingParams(temperature=0, subtalker_temperature=0)
    stream = submit(engine, thread, RequestRecord("r"), sampling=sampling)
    assert np.array_equal(await read(stream), samples_of(ONE_MISSING))


async def test_speech_that_the_client_limits_may_lack_words(thread) -> None:
    def cut(text: str) -> Take:
        return changed(MANY_MISSING, reason=FinishReason.LENGTH)(text)

    record, engine = RequestRecord("r"), ScriptedEngine([cut])
    await read(submit(engine, thread, record, sampling=SamplingParams(seed=7, max_new_tokens=50)))
    assert record.retries == {}


async def test_the_first_piece_of_a_stream_does_not_wait(thread) -> None:
    record, engine = RequestRecord("r", playback=Playback()), ScriptedEngine([ONE_MISSING])
    assert np.array_equal(await read(submit(engine, thread, record, realtime=True)), samples_of(ONE_MISSING))
    assert record.retries == {}


async def test_speech_of_a_checkpoint_for_raw_text_is_sent_unchecked(thread) -> None:
    engine = ScriptedEngine([ONE_MISSING], info(profile=SpeechProfile(characters_per_second=PACE)))
    stream = Guard(engine, RequestRecord("r"), WordCheck(thread)).submit(speech_request())
    assert np.array_equal(await read(stream), samples_of(ONE_MISSING))


class Listener:
    """A client of a stream, which has a minute of audio to play until ``hurry``."""

    def __init__(self) -> None:
        self.now = 0.0
        playback = Playback(lambda: self.now)
        playback.add_audio(60.0)
        self.record = RequestRecord("r", playback=playback)

    def hurry(self) -> None:
        self.now = 60.0


async def test_a_later_piece_of_a_stream_is_made_again(thread) -> None:
    engine = ScriptedEngine([ONE_MISSING, GOOD])
    assert np.array_equal(await read(submit(engine, thread, Listener().record, realtime=True)), samples_of(GOOD))


@pytest.mark.parametrize("chunks", [0, 10])
async def test_a_complete_attempt_is_sent_when_time_is_up_before_the_next_is_complete(chunks, thread) -> None:
    listener = Listener()

    def late(text: str) -> Take:
        listener.hurry()
        return changed(MANY_MISSING, stalls_after=chunks)(text)

    engine = ScriptedEngine([ONE_MISSING, late])
    stream = submit(engine, thread, listener.record, realtime=True)
    assert np.array_equal(await read(stream), samples_of(ONE_MISSING))
    assert stream.completion.output_tokens == ONE_MISSING("").frames
    assert engine.streams[1].cancelled


@pytest.mark.parametrize("realtime", [True, False])
async def test_a_complete_attempt_is_sent_when_the_engine_is_lost_in_the_next(realtime, thread) -> None:
    lost = changed(GOOD, lost_after=5)
    engine = ScriptedEngine([ONE_MISSING, lost, lost])
    stream = submit(engine, thread, Listener().record, realtime=realtime)
    assert np.array_equal(await read(stream), samples_of(ONE_MISSING))


async def test_a_complete_attempt_is_sent_when_no_further_one_can_start(thread) -> None:
    def refused(text: str) -> Take:
        raise EngineUnavailable("the engine is draining")

    engine = ScriptedEngine([ONE_MISSING, refused])
    assert np.array_equal(await read(submit(engine, thread, RequestRecord("r"))), samples_of(ONE_MISSING))


async def test_audio_leaves_unchecked_before_the_client_has_an_underrun(thread) -> None:
    listener, engine = Listener(), ScriptedEngine([ONE_MISSING])
    stream = submit(engine, thread, listener.record, realtime=True)
    listener.now = 59.4  # a tenth of a second is left until the margin
    with blocked(thread):
        assert np.array_equal(await read(stream), samples_of(ONE_MISSING))


async def test_only_speech_with_a_deadline_is_sent_unchecked_while_the_aligner_is_busy(thread) -> None:
    check, chunks = WordCheck(thread), ONE_MISSING("").chunks(0)
    with blocked(thread) as released:
        waiting = [asyncio.create_task(check.faults(RECORDING.text, chunks, wait=True)) for _ in range(5)]
        await asyncio.sleep(0)
        assert await check.faults(RECORDING.text, chunks, wait=False) == 0
        released.set()
        assert await asyncio.gather(*waiting) == [1] * 5
    assert await check.faults(RECORDING.text, chunks, wait=False) == 1


async def test_equal_requests_at_once_have_equal_speech(thread) -> None:
    check = WordCheck(thread)
    engines = [ScriptedEngine([ONE_MISSING, GOOD], info(profile=PROFILE)) for _ in range(8)]
    streams = [Guard(engine, RequestRecord("r"), check).submit(speech_request()) for engine in engines]
    for samples in await asyncio.gather(*map(read, streams)):
        assert np.array_equal(samples, samples_of(GOOD))


async def test_speech_is_sent_when_its_check_fails(thread) -> None:
    engine = ScriptedEngine([GOOD])
    stream = submit(engine, thread, RequestRecord("r"))
    thread.shutdown()
    assert np.array_equal(await read(stream), samples_of(GOOD))


async def test_a_stream_that_is_cancelled_during_the_check_ends(thread) -> None:
    engine = ScriptedEngine([ONE_MISSING])
    stream = submit(engine, thread, RequestRecord("r"))
    with blocked(thread) as released:
        reading = asyncio.create_task(anext(stream, None))
        while engine.streams[0].consumed < ONE_MISSING("").frames:
            await asyncio.sleep(0)
        stream.cancel()
        released.set()
        assert await reading is None
    assert len(engine.streams) == 1
    assert stream.completion.finish_reason is FinishReason.CANCELLED


@pytest.mark.parametrize(
    ("fields", "profile"),
    [
        ({"text": "Hello there, you."}, PROFILE),
        ({"text": "The total is $20 for the two of you."}, PROFILE),
        ({"text": "The word of the day is спутник, from Russian."}, PROFILE),
        ({"text": "Ich weiß nicht, wo der Bahnhof ist.", "language": "german"}, PROFILE),
        ({"text": "word " * 300}, PROFILE),
        ({}, SpeechProfile(characters_per_second=PACE)),
    ],
    ids=["very short", "digits and symbols", "letters", "another language", "very long", "a checkpoint of raw text"],
)
def test_what_the_aligner_cannot_judge_is_not_checked(fields, profile) -> None:
    assert WordCheck.applies(speech_request(), PROFILE)
    assert not WordCheck.applies(speech_request(**fields), profile)


def test_accents_quotes_and_spelled_letters_are_checked() -> None:
    text = "“Café” O’Connell said — over H T T P — that it’s a well-known naïve idea…"
    assert WordCheck.applies(speech_request(text=text), PROFILE)
