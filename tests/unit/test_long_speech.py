"""Long texts: when pieces are requested, and how they form one utterance."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest

from engine.errors import EngineFailed
from engine.protocol.request import AudioChunk, Completion, FinishReason, SamplingParams, SpeechRequest, Voice
from server.long_text.speech import LongSpeech, seed_of

FRAMES = 40


class Stream:
    """An utterance with a given number of frames, one per chunk."""

    def __init__(self, request: SpeechRequest, frames: int, reason: FinishReason, fails: bool) -> None:
        self.request = request
        self.cancelled = False
        self.consumed = 0
        self._frames, self._fails = frames, fails
        self.completion = Completion(reason, 10, frames)

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._fails:
            raise EngineFailed("it broke", code="broken")
        if self.consumed == self._frames or self.cancelled:
            raise StopAsyncIteration
        self.consumed += 1
        return AudioChunk(np.zeros(1920, np.int16), np.zeros((1, 16), np.int16))

    def cancel(self) -> None:
        self.cancelled = True


class StubEngine:
    """Records the requests."""

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


def long_speech(engine: StubEngine, count: int, **fields: object) -> LongSpeech:
    return LongSpeech(engine, SpeechRequest("all of it", **fields), iter(texts(count)))


async def test_the_next_piece_is_requested_before_the_current_one_ends() -> None:
    engine = StubEngine()
    requested = [len(engine.streams) async for _ in long_speech(engine, 4)]
    assert len(requested) == 4 * FRAMES
    for number in range(3):
        during = requested[number * FRAMES : (number + 1) * FRAMES]
        assert during[0] == number + 1
        assert during[-2] == number + 2
        assert max(during) <= number + 2


async def test_pieces_are_not_requested_far_ahead() -> None:
    engine = StubEngine()
    speech = long_speech(engine, 100)
    for _ in range(5):
        await anext(speech)
    assert len(engine.streams) == 1


async def test_each_piece_has_the_voice_of_the_request_and_a_derived_seed() -> None:
    engine = StubEngine()
    voice = Voice(np.zeros(4, np.float32))
    async for _ in long_speech(engine, 3, voice=voice, language="german", sampling=SamplingParams(seed=7, top_k=3)):
        pass
    requests = [stream.request for stream in engine.streams]
    assert [request.text for request in requests] == texts(3)
    assert all(request.voice is voice and request.language == "german" for request in requests)
    assert [request.sampling.seed for request in requests] == [7, seed_of(7, 1), seed_of(7, 2)]
    assert {request.sampling.top_k for request in requests} == {3}


def test_derived_seeds_are_distinct_and_in_range() -> None:
    seeds = {seed_of(seed, number) for seed in (0, 1, 2**63 - 1) for number in range(1000)}
    assert len(seeds) == 3000
    assert all(seed is not None and 0 <= seed < 2**63 for seed in seeds)
    assert seed_of(None, 5) is None


async def test_usage_is_summed_and_a_truncated_piece_sets_the_finish_reason() -> None:
    speech = long_speech(StubEngine({1: FinishReason.LENGTH}), 3)
    with pytest.raises(RuntimeError):
        _ = speech.completion
    async for _ in speech:
        pass
    assert speech.completion == Completion(FinishReason.LENGTH, 30, 3 * FRAMES)


async def test_a_failure_is_raised_after_all_generated_audio() -> None:
    speech = long_speech(StubEngine(fails=2), 5)
    received = 0
    with pytest.raises(EngineFailed):
        async for _ in speech:
            received += 1
    assert received == 2 * FRAMES


async def test_cancel_also_cancels_the_piece_requested_ahead() -> None:
    engine = StubEngine()
    speech = long_speech(engine, 5)
    while len(engine.streams) < 2:
        await anext(speech)
    speech.cancel()
    assert [stream.cancelled for stream in engine.streams] == [True, True]
