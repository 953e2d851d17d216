"""Faulty pieces of speech are generated again unless audio was already sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineFailed, PoisonRequest
from engine.protocol.engine import AudioStream
from engine.protocol.request import AudioChunk, FinishReason, SamplingParams, SpeechRequest, Voice
from server.errors import ApiError
from server.guards.guard import Guard
from server.guards.stream import retry_seed
from server.telemetry.record import Playback, RequestRecord
from tests.support.scripted_engine import (
    ScriptedEngine,
    Take,
    endless,
    good,
    good_frames,
    repeating,
    silent,
    truncated,
)

TEXT = "The bus was late again, so I walked to the office in the rain."
FAULTS = {"silent": silent, "runaway": endless, "truncated": truncated, "repeating": repeating}


def request(**fields: Any) -> SpeechRequest:
    values: dict[str, Any] = {"text": TEXT, "speaker": "ava", "sampling": SamplingParams(seed=7), "realtime": False}
    return SpeechRequest(**(values | fields))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def streaming_record(seconds: float, clock: Clock) -> RequestRecord:
    """The record of a client that has ``seconds`` of audio to play."""
    playback = Playback(clock)
    playback.add_audio(seconds)
    return RequestRecord("r", playback=playback)


async def read(stream: AudioStream) -> np.ndarray:
    chunks = [chunk.samples async for chunk in stream]
    return np.concatenate([np.zeros(0, np.int16), *chunks])


async def alone(seed: int | None, take: Callable[[str], Take] = good) -> np.ndarray:
    """The samples of an unguarded take."""
    engine = ScriptedEngine([take])
    return await read(engine.submit(request(sampling=SamplingParams(seed=seed))))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_piece_is_made_again_with_another_seed(fault: str) -> None:
    record, engine = RequestRecord("r"), ScriptedEngine([FAULTS[fault]])
    stream = Guard(engine, record).submit(request())
    samples = await read(stream)
    assert np.array_equal(samples, await alone(retry_seed(7, 1)))
    assert [each.request.sampling.seed for each in engine.streams] == [7, retry_seed(7, 1)]
    assert record.retries == {fault: 1}
    assert record.fault is None
    assert stream.completion.finish_reason is FinishReason.STOP


async def test_good_speech_is_passed_on_unchanged() -> None:
    record, engine = RequestRecord("r"), ScriptedEngine()
    assert np.array_equal(await read(Guard(engine, record).submit(request())), await alone(7))
    assert len(engine.streams) == 1
    assert record.retries == {}


async def test_after_three_attempts_the_request_fails() -> None:
    record, engine = RequestRecord("r"), ScriptedEngine([silent, endless, truncated, good])
    with pytest.raises(ApiError, match="much shorter than its text in each of 3 attempts") as raised:
        await read(Guard(engine, record).submit(request()))
    assert (raised.value.status, raised.value.code) == (500, "speech_failed")
    assert len(engine.streams) == 3
    assert record.retries == {"silent": 1, "runaway": 1}
    assert record.fault == "truncated"


async def test_an_attempt_that_runs_away_is_cancelled_in_the_engine() -> None:
    engine = ScriptedEngine([endless])
    await read(Guard(engine, RequestRecord("r")).submit(request()))
    assert engine.streams[0].cancelled
    assert engine.streams[0].consumed < 50


async def test_a_request_without_a_seed_is_made_again_without_one() -> None:
    engine = ScriptedEngine([silent])
    await read(Guard(engine, RequestRecord("r")).submit(request(sampling=SamplingParams())))
    assert [each.request.sampling.seed for each in engine.streams] == [None, None]


async def test_speech_that_another_seed_would_not_change_is_not_made_again() -> None:
    engine = ScriptedEngine([silent])
    sampling = SamplingParams(temperature=0, subtalker_temperature=0)
    with pytest.raises(ApiError):
        await read(Guard(engine, RequestRecord("r")).submit(request(sampling=sampling)))
    assert len(engine.streams) == 1


async def test_a_clone_in_context_that_fails_is_told_to_check_its_transcript() -> None:
    voice = Voice(np.zeros(4, np.float32), np.zeros((40, 16), np.int64), "What is said in it.")
    with pytest.raises(ApiError, match="check that ref_text is the exact transcript"):
        await read(Guard(ScriptedEngine([silent] * 3), RequestRecord("r")).submit(request(speaker=None, voice=voice)))


async def test_the_last_attempt_of_a_clone_in_context_uses_its_x_vector_only() -> None:
    voice = Voice(np.ones(4, np.float32), np.zeros((40, 16), np.int64), "What is said in it.")
    record, engine = RequestRecord("r", reference="stop added"), ScriptedEngine([truncated, truncated, good])
    await read(Guard(engine, record).submit(request(speaker=None, voice=voice)))
    used = [each.request.voice for each in engine.streams]
    assert [each is not None and each.codes is not None for each in used] == [True, True, False]
    assert used[2] is not None and np.array_equal(used[2].embedding, voice.embedding)
    assert used[2].transcript is None
    assert record.reference == "stop added, x-vector only (speech_failed)"
    assert record.retries == {"truncated": 2}


async def test_a_text_beyond_the_length_limit_is_not_made_again() -> None:
    engine = ScriptedEngine([lambda text: Take(12, reason=FinishReason.LENGTH)])
    with pytest.raises(ApiError, match="did not end before the length limit"):
        await read(Guard(engine, RequestRecord("r")).submit(request()))
    assert len(engine.streams) == 1


async def test_the_clients_own_length_limit_is_no_fault() -> None:
    engine = ScriptedEngine([lambda text: Take(9, reason=FinishReason.LENGTH)])
    stream = Guard(engine, RequestRecord("r")).submit(request(sampling=SamplingParams(max_new_tokens=10)))
    assert len(await read(stream)) == 9 * 1920
    assert stream.completion.finish_reason is FinishReason.LENGTH


async def test_a_stream_begins_with_the_first_audible_audio() -> None:
    record, engine = RequestRecord("r", playback=Playback()), ScriptedEngine()
    stream = Guard(engine, record).submit(request(realtime=True))
    await anext(stream)
    assert engine.streams[0].consumed == 1


@pytest.mark.parametrize("level", [1, 60], ids=["silence", "audible noise"])
async def test_what_is_no_speech_at_the_start_of_a_stream_is_made_again(level: int) -> None:
    record = RequestRecord("r", playback=Playback())
    engine = ScriptedEngine([lambda text: Take(80, level=level)])
    samples = await read(Guard(engine, record).submit(request(realtime=True)))
    assert np.array_equal(samples, await alone(retry_seed(7, 1)))
    assert record.retries == {"silent": 1}


@pytest.mark.parametrize("script", [endless, truncated, repeating])
async def test_audio_that_was_heard_is_not_made_again(script: Callable[[str], Take]) -> None:
    record, engine = RequestRecord("r", playback=Playback()), ScriptedEngine([script])
    stream = Guard(engine, record).submit(request(realtime=True))
    received: list[AudioChunk] = []
    with pytest.raises(ApiError, match="send the request again"):
        async for chunk in stream:
            received.append(chunk)
    assert received
    assert len(engine.streams) == 1
    assert record.fault is not None


@pytest.mark.parametrize("script", [endless, truncated, repeating])
async def test_while_the_client_has_audio_to_play_later_pieces_are_made_again(script: Callable[[str], Take]) -> None:
    record, engine = streaming_record(5.0, Clock()), ScriptedEngine([script])
    samples = await read(Guard(engine, record).submit(request(realtime=True)))
    assert np.array_equal(samples, await alone(retry_seed(7, 1)))


async def test_audio_is_released_before_the_client_has_an_underrun() -> None:
    clock = Clock()
    record, engine = streaming_record(5.0, clock), ScriptedEngine()
    stream = Guard(engine, record).submit(request(realtime=True))
    clock.now = 4.9
    await anext(stream)
    assert engine.streams[0].consumed == 1


async def test_an_incomplete_piece_is_released_before_the_client_has_an_underrun() -> None:
    record, engine = streaming_record(0.6, Clock()), ScriptedEngine([lambda text: Take(40, stalls_after=1)])
    chunk = await anext(Guard(engine, record).submit(request(realtime=True)))
    assert np.array_equal(chunk.samples, (await alone(7))[: len(chunk.samples)])


SHORT = "Stop!"


def takes(*frames: int) -> list[Callable[[str], Take]]:
    """Scripts of good speech of these lengths."""
    return [lambda text, count=count: Take(count) for count in frames]  # type: ignore[misc]


@pytest.mark.parametrize("realtime", [True, False])
@pytest.mark.parametrize(("attempts", "kept"), [((20, 7), 7), ((20, 30, 25), 20), ((30, 16, 20), 16), ((20, 30, 7), 7)])
async def test_of_a_very_short_text_the_first_usual_or_else_the_shortest_attempt_is_kept(
    realtime: bool, attempts: tuple[int, ...], kept: int
) -> None:
    record, engine = RequestRecord("r", playback=Playback()), ScriptedEngine(takes(*attempts))
    stream = Guard(engine, record).submit(request(text=SHORT, realtime=realtime))
    assert len(await read(stream)) == kept * 1920
    assert stream.completion.output_tokens == kept
    assert record.fault is None
    assert record.retries == {"long": len(attempts) - 1}


async def test_a_long_attempt_is_better_than_none() -> None:
    record, engine = RequestRecord("r"), ScriptedEngine([*takes(20), silent, endless])
    assert len(await read(Guard(engine, record).submit(request(text=SHORT)))) == 20 * 1920
    assert record.fault is None


async def test_a_cancelled_stream_ends() -> None:
    engine = ScriptedEngine([endless])
    stream = Guard(engine, RequestRecord("r", playback=Playback())).submit(request(realtime=True))
    await anext(stream)
    stream.cancel()
    assert [chunk async for chunk in stream] == []
    assert stream.completion.finish_reason is FinishReason.CANCELLED
    assert engine.streams[0].cancelled


def test_seeds_of_attempts_are_distinct_and_in_range() -> None:
    seeds: Sequence[int | None] = [retry_seed(seed, attempt) for seed in (0, 1, 2**63 - 1) for attempt in (1, 2)]
    assert len(set(seeds)) == 6
    assert all(seed is not None and 0 <= seed < 2**63 for seed in seeds)


def lost(text: str) -> Take:
    """Good speech whose engine is lost after two chunks."""
    return Take(good_frames(text), lost_after=2)


async def test_a_piece_is_submitted_again_when_its_engine_is_lost_while_it_is_held_back() -> None:
    engine, record = ScriptedEngine([lost]), RequestRecord("r")
    assert np.array_equal(await read(Guard(engine, record).submit(request())), await alone(7))
    assert [stream.request.sampling.seed for stream in engine.streams] == [7, 7]
    assert record.moves == 1
    assert not record.retries


@pytest.mark.parametrize(("scripts", "realtime"), [([lost, lost], False), ([lost], True)])
async def test_a_piece_fails_with_its_engine_the_second_time_or_after_audio_has_left(
    scripts: Sequence[Callable[[str], Take]], realtime: bool
) -> None:
    engine = ScriptedEngine(scripts)
    with pytest.raises(EngineFailed, match="ended unexpectedly"):
        await read(Guard(engine, RequestRecord("r")).submit(request(realtime=realtime)))
    assert len(engine.streams) == len(scripts)


async def test_a_request_that_two_engines_were_lost_with_is_not_submitted_again() -> None:
    class PoisonedStream:
        def __aiter__(self) -> PoisonedStream:
            return self

        async def __anext__(self) -> AudioChunk:
            raise PoisonRequest("two engines were lost")

    class PoisonedEngine(ScriptedEngine):
        submitted = 0

        def submit(self, request: SpeechRequest, **_: Any) -> Any:
            self.submitted += 1
            return PoisonedStream()

    engine = PoisonedEngine()
    with pytest.raises(PoisonRequest):
        await read(Guard(engine, RequestRecord("r")).submit(request()))
    assert engine.submitted == 1
