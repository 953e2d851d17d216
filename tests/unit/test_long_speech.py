"""Long texts: when segments are requested, and how they form one utterance."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest

from engine.errors import EngineFailed
from engine.protocol.request import AudioChunk, Completion, FinishReason, SpeechRequest
from server.long_text.segments import Segment, seed_of
from server.long_text.speech import LongSpeech

FRAMES = 40


class Stream:
    """An utterance with a given number of frames, one per chunk."""

    def __init__(
        self, request: SpeechRequest, frames: int, reason: FinishReason, fails: bool, silent: tuple[int, int]
    ) -> None:
        self.request = request
        self._sounding = range(silent[0], frames - silent[1])
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
        level = 8000 if self.consumed in self._sounding else 0
        self.consumed += 1
        return AudioChunk(np.full(1920, level, np.int16), np.full((1, 16), self.consumed, np.int16))

    def append(self, piece: str, *, last: bool = False) -> None:
        raise AssertionError("the text was complete")

    def cancel(self) -> None:
        self.cancelled = True


class StubEngine:
    """Records the requests."""

    def __init__(
        self,
        reasons: dict[int, FinishReason] | None = None,
        fails: int | None = None,
        silent: tuple[int, int] = (0, 0),
    ) -> None:
        """silent: frames of silence at the start and at the end of each utterance."""
        self.streams: list[Stream] = []
        self._silent = silent
        self._reasons, self._fails = reasons or {}, fails

    def submit(self, request: SpeechRequest) -> Stream:
        number = len(self.streams)
        reason = self._reasons.get(number, FinishReason.STOP)
        self.streams.append(Stream(request, FRAMES, reason, number == self._fails, self._silent))
        return self.streams[-1]


def texts(count: int) -> list[str]:
    return [f"{'word ' * 10}{number}" for number in range(count)]


def long_speech(engine: StubEngine, count: int, pause: float = 0.0) -> LongSpeech:
    return LongSpeech(engine.submit, (Segment(pause, SpeechRequest(text)) for text in texts(count)))


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
    chunks = aiter(long_speech(engine, 100))
    for _ in range(5):
        await anext(chunks)
    assert len(engine.streams) == 1


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
    chunks = aiter(speech)
    while len(engine.streams) < 2:
        await anext(chunks)
    speech.cancel()
    assert [stream.cancelled for stream in engine.streams] == [True, True]


@pytest.mark.parametrize("silent", [(0, 0), (1, 2), (3, 9)])
@pytest.mark.parametrize("pause", [0.22, 0.35, 0.65, 2.5])
async def test_the_pause_between_two_pieces_is_exact(silent: tuple[int, int], pause: float) -> None:
    samples = np.concatenate([chunk.samples async for chunk in long_speech(StubEngine(silent=silent), 3, pause)])
    sounding = np.flatnonzero(samples)
    gaps = np.diff(sounding) - 1
    assert list(gaps[gaps > 0]) == [round(pause * 24_000)] * 2
    assert len(sounding) == 3 * (FRAMES - sum(silent)) * 1920


async def test_the_codes_and_the_end_of_the_last_piece_stay_as_they_are() -> None:
    engine = StubEngine(silent=(1, 4))
    chunks = [chunk async for chunk in long_speech(engine, 2, 0.35)]
    assert np.concatenate([chunk.codes for chunk in chunks])[:, 0].tolist() == [*range(1, FRAMES + 1)] * 2
    samples = np.concatenate([chunk.samples for chunk in chunks])
    assert len(samples) - np.flatnonzero(samples)[-1] - 1 == 4 * 1920
    assert all(len(chunk.samples) for chunk in chunks)


async def test_requested_pauses_at_both_ends_of_a_text_are_exact() -> None:
    segments = iter([Segment(1.5, SpeechRequest("Hello.")), Segment(2.0, None)])
    samples = np.concatenate([chunk.samples async for chunk in LongSpeech(StubEngine(silent=(1, 2)).submit, segments)])
    sounding = np.flatnonzero(samples)
    assert (sounding[0], len(samples) - sounding[-1] - 1) == (36_000, 48_000)


async def test_silence_before_the_next_piece_is_sent_before_its_audio_arrives() -> None:
    engine = StubEngine()
    chunks = aiter(long_speech(engine, 2, 0.35))
    for _ in range(1 + FRAMES):
        await anext(chunks)
    silence = await anext(chunks)
    assert not silence.samples.any()
    assert engine.streams[1].consumed == 0
