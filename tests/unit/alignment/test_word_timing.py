"""Word times of a stream: pieces, joints, trimmed silence and speed, with speech whose word times are known."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor

import numpy as np
import pytest

from benchmarks.lib.timed_speech import TimedSpeech, read_timed_speech
from engine.protocol.request import AudioChunk, Completion, FinishReason, SpeechRequest
from server.alignment.timed_words import WordTime
from server.alignment.worker import aligner_threads
from server.audio.onset import TRIMMED, from_onset
from server.long_text.segments import Segment
from server.long_text.speech import LongSpeech
from server.long_text.spoken_piece import SpokenPiece
from server.synthesis.word_timing import TimedStream, WordTiming

RECORDINGS = read_timed_speech()
LONGEST = max(RECORDINGS, key=lambda each: len(each.samples))
RECORDINGS = [*RECORDINGS[:3], LONGEST]
CHUNK = 4000


class Speaker:
    """The stream of an engine that speaks one of the recordings: the one with the request's text."""

    def __init__(self, request: SpeechRequest, reason: FinishReason = FinishReason.STOP) -> None:
        (recording,) = (each for each in RECORDINGS if each.text == request.text)
        self._blocks = iter(np.array_split(recording.samples, len(recording.samples) // CHUNK))
        self.completion = Completion(reason, 1, 1)

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        for block in self._blocks:
            return AudioChunk(block, np.zeros((2, 16), np.int16))
        raise StopAsyncIteration

    def append(self, piece: str, *, last: bool = False) -> None: ...

    def cancel(self) -> None: ...


@pytest.fixture
def threads() -> Iterator[Executor]:
    with aligner_threads() as executor:
        yield executor


def timing(threads: Executor, speed: float = 1.0, languages: tuple[str, ...] = ("english",)) -> WordTiming:
    return WordTiming(threads, languages, speed)


def said(recording: TimedSpeech, language: str = "auto") -> SpeechRequest:
    return SpeechRequest(recording.text, speaker="one", language=language)


async def times_of(timing: WordTiming) -> list[WordTime]:
    return [word async for words in timing.rest() for word in words or []]


def check(words: list[WordTime], recording: TimedSpeech, offset: float = 0.0, speed: float = 1.0) -> None:
    """The words of a piece have the known times, from ``offset``, at ``speed``."""
    found = np.array([(word.start, word.end) for word in words])
    assert np.median(np.abs(found - (recording.times + offset) / speed)) < 0.03


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
async def test_one_utterance(threads: Executor, speed: float) -> None:
    words = timing(threads, speed)
    stream = TimedStream(Speaker(said(RECORDINGS[0])), words, said(RECORDINGS[0]))
    samples = [chunk.samples async for chunk in stream]
    assert np.array_equal(np.concatenate(samples), RECORDINGS[0].samples)
    check(await times_of(words), RECORDINGS[0], speed=speed)


async def test_silence_that_is_trimmed_counts_for_nothing(threads: Executor) -> None:
    words = timing(threads)
    blocks = from_onset(TimedStream(Speaker(said(RECORDINGS[0])), words, said(RECORDINGS[0])), TRIMMED)
    first = await anext(blocks)
    words.set_kept(len(first))
    kept = len(first) + sum([len(block) async for block in blocks])
    check(await times_of(words), RECORDINGS[0], offset=(kept - len(RECORDINGS[0].samples)) / 24_000)


async def test_pieces_that_are_joined_with_pauses(threads: Executor) -> None:
    segments = [Segment(pause, said(each)) for pause, each in zip((0.0, 2.0, 0.3), RECORDINGS[:3], strict=True)]
    words = timing(threads)
    stream = TimedStream(LongSpeech(Speaker, iter(segments)), words, said(RECORDINGS[0]))
    samples = np.concatenate([chunk.samples async for chunk in stream])
    found = iter(await times_of(words))
    first, second, third = ([next(found) for _ in each.times] for each in RECORDINGS[:3])
    for piece, recording in zip((first, second, third), RECORDINGS, strict=False):
        check(piece, recording, offset=piece[0].start - recording.times[0][0])
    assert 1.9 < second[0].start - first[-1].end < 2.2
    assert 0.2 < third[0].start - second[-1].end < 0.5
    assert third[-1].end <= len(samples) / 24_000


async def test_words_are_ready_before_the_stream_ends(threads: Executor) -> None:
    words = timing(threads)
    ready: list[WordTime] = []
    async with asyncio.timeout(300):
        async for _ in TimedStream(Speaker(said(LONGEST)), words, said(LONGEST)):
            early = len(ready)
            while words.has_pending:
                ready += [word for group in words.ready() for word in group or []]
                await asyncio.sleep(0)
    assert early > len(LONGEST.times) // 2
    check([*ready, *await times_of(words)], LONGEST)


async def test_a_live_piece_is_aligned_when_its_text_is_complete(threads: Executor) -> None:
    class Live(Speaker):
        piece = SpokenPiece(0, "english")

        @property
        def spoken(self) -> deque[SpokenPiece]:
            return deque([self.piece])

        async def __anext__(self) -> AudioChunk:
            try:
                return await super().__anext__()
            except StopAsyncIteration:
                self.piece.text, self.piece.end = RECORDINGS[0].text, len(RECORDINGS[0].samples)
                raise

    words = timing(threads)
    async for _ in TimedStream(Live(said(RECORDINGS[0])), words, SpeechRequest("")):
        assert not words.has_pending
    check(await times_of(words), RECORDINGS[0])


async def test_languages_that_are_not_covered_have_none(threads: Executor) -> None:
    for request, languages in [
        (said(RECORDINGS[0], "french"), ("english", "french")),
        (said(RECORDINGS[0]), ("german",)),
    ]:
        words = timing(threads, languages=languages)
        async for _ in TimedStream(Speaker(request), words, request):
            pass
        assert [group async for group in words.rest()] == [None]
