"""When the pieces of a long text are asked for, and of what they are one utterance."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest

from engine.errors import EngineFailed
from engine.protocol.request import AudioChunk, Completion, FinishReason, SamplingParams, SpeechRequest, Voice
from server.long_text.speech import LongSpeech, seed_of

FRAMES = 40


class Stream:
    """An utterance of so many frames, one a chunk."""

    def __init__(self, request: SpeechRequest, frames: int, reason: FinishReason, fails: bool) -> None:
        self.request = request
        self.cancelled = False
        self.taken = 0
        self._frames, self._fails = frames, fails
        self.completion = Completion(reason, 10, frames)

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._fails:
            raise EngineFailed("it broke", code="broken")
        if self.taken == self._frames or self.cancelled:
            raise StopAsyncIteration
        self.taken += 1
        return AudioChunk(np.zeros(1920, np.int16), np.zeros((1, 16), np.int16))

    def cancel(self) -> None:
        self.cancelled = True


class Engine:
    """Remembers what it was asked for."""

    def __init__(self, reasons: dict[int, FinishReason] | None = None, fails: int | None = None) -> None:
        self.streams: list[Stream] = []
        self._reasons, self._fails = reasons or {}, fails

    def submit(self, request: SpeechRequest) -> Stream:
        number = len(self.streams)
        reason = self._reasons.get(number, FinishReason.STOP)
        self.streams.append(Stream(request, FRAMES, reason, number == self._fails))
        return self.streams[-1]


def texts(count: int) -> list[str]:
    return [f"{'word ' * 10}{number}" for number in range(count)]


def long_speech(engine: Engine, count: int, **fields: object) -> LongSpeech:
    return LongSpeech(engine, SpeechRequest("all of it", **fields), iter(texts(count)))


async def test_the_next_piece_is_asked_for_before_the_one_before_ends_and_never_two() -> None:
    engine = Engine()
    asked = [len(engine.streams) async for _ in long_speech(engine, 4)]
    assert len(asked) == 4 * FRAMES
    for number in range(3):
        during = asked[number * FRAMES : (number + 1) * FRAMES]
        assert during[0] == number + 1
        assert during[-2] == number + 2
        assert max(during) <= number + 2


async def test_nothing_is_asked_for_beyond_what_is_heard() -> None:
    engine = Engine()
    speech = long_speech(engine, 100)
    for _ in range(5):
        await anext(speech)
    assert len(engine.streams) == 1


async def test_each_piece_has_the_voice_of_the_request_and_a_seed_that_follows_from_its_own() -> None:
    engine = Engine()
    voice = Voice(np.zeros(4, np.float32))
    async for _ in long_speech(engine, 3, voice=voice, language="german", sampling=SamplingParams(seed=7, top_k=3)):
        pass
    requests = [stream.request for stream in engine.streams]
    assert [request.text for request in requests] == texts(3)
    assert all(request.voice is voice and request.language == "german" for request in requests)
    assert [request.sampling.seed for request in requests] == [7, seed_of(7, 1), seed_of(7, 2)]
    assert {request.sampling.top_k for request in requests} == {3}


def test_seeds_are_distinct_and_as_large_as_seeds_may_be() -> None:
    seeds = {seed_of(seed, number) for seed in (0, 1, 2**63 - 1) for number in range(1000)}
    assert len(seeds) == 3000
    assert all(seed is not None and 0 <= seed < 2**63 for seed in seeds)
    assert seed_of(None, 5) is None


async def test_tokens_and_frames_are_summed_and_one_piece_cut_short_is_told() -> None:
    speech = long_speech(Engine({1: FinishReason.LENGTH}), 3)
    with pytest.raises(RuntimeError):
        _ = speech.completion
    async for _ in speech:
        pass
    assert speech.completion == Completion(FinishReason.LENGTH, 30, 3 * FRAMES)


async def test_a_failure_midway_comes_after_all_that_was_made() -> None:
    speech = long_speech(Engine(fails=2), 5)
    heard = 0
    with pytest.raises(EngineFailed):
        async for _ in speech:
            heard += 1
    assert heard == 2 * FRAMES


async def test_cancel_gives_up_the_piece_ahead_too() -> None:
    engine = Engine()
    speech = long_speech(engine, 5)
    while len(engine.streams) < 2:
        await anext(speech)
    speech.cancel()
    assert [stream.cancelled for stream in engine.streams] == [True, True]
