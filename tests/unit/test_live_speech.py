"""Live text: where it is split, and how its pieces become one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from engine.protocol.request import AudioChunk, Completion, FinishReason, SamplingParams, SpeechRequest
from server.live.live_pieces import LivePieces
from server.live.live_speech import LiveSpeech
from server.long_text.pieces import CLAUSE_PAUSE, PARAGRAPH_PAUSE, SENTENCE_PAUSE
from server.long_text.segments import seed_of
from server.text.frontend import Pause, Spoken

SENTENCE = "It was a dark and stormy night in the old town. "
LONGEST = 90


class Stream:
    """A live engine utterance: one frame for each letter of text, up to the end of the text."""

    def __init__(self, request: SpeechRequest) -> None:
        self.request = request
        self.text = request.text
        self._last = not request.live
        self._frames = 0
        self._changed = asyncio.Event()
        self.completion = Completion(FinishReason.STOP, 1, 1)

    def append(self, piece: str, *, last: bool = False) -> None:
        assert not self._last, "text after the end"
        self.text += piece
        self._last = last
        self._changed.set()

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        while self._frames == len(self.text):
            if self._last:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self._frames += 1
        return AudioChunk(np.full(1920, 8000, np.int16), np.zeros((1, 16), np.int16))

    def cancel(self) -> None:
        self._last = True
        self._frames = len(self.text)
        self._changed.set()


class StubEngine:
    def __init__(self) -> None:
        self.streams: list[Stream] = []

    def submit(self, request: SpeechRequest) -> Stream:
        self.streams.append(Stream(request))
        return self.streams[-1]


def deltas(text: str, size: int) -> list[Spoken]:
    return [Spoken(text[start : start + size]) for start in range(0, len(text), size)]


def split(*spoken: Spoken, longest: float = LONGEST) -> list[tuple[float, str]]:
    """The pause and the text of each piece."""
    text = LivePieces(longest)
    pieces = [piece for each in spoken for piece in text.add(each)]
    return [(piece.pause, piece.take().strip()) for piece in pieces]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_live_text_is_split_at_sentences(size: int) -> None:
    sentence = SENTENCE.strip()
    text = SENTENCE * 3 + "\n\n" + SENTENCE
    assert split(*deltas(text, size)) == [
        (0.0, sentence),
        (SENTENCE_PAUSE, sentence),
        (SENTENCE_PAUSE, sentence),
        (PARAGRAPH_PAUSE, sentence),
    ]
    assert split(*deltas(text, size), longest=float("inf")) == [(0.0, " ".join(text.split()))]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_paragraphs_are_pieces_unless_they_are_very_short(size: int) -> None:
    """No piece has an empty line, which checkpoints have not learned to read."""
    text = "Yes.\n\nOf course, I can help.\n\nThe first step is to open the box."
    assert split(*deltas(text, size)) == [
        (0.0, "Yes. Of course, I can help."),
        (PARAGRAPH_PAUSE, "The first step is to open the box."),
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_whole_sentences_are_pieces_that_are_ready_when_they_are_complete(size: int) -> None:
    text = LivePieces(LONGEST, sentences=True)
    pieces = []
    for spoken in deltas("Yes. Two eggs are enough for us. Mix", size):
        pieces += text.add(spoken)
    assert [piece.ready for piece in pieces] == [True, False]
    assert pieces[0].take().strip() == "Yes. Two eggs are enough for us."
    text.add(Spoken(" them well."))
    text.end()
    assert pieces[1].ready
    assert pieces[1].take() == "Mix them well."


def test_a_whole_sentence_does_not_wait_for_the_next_word() -> None:
    text = LivePieces(LONGEST, sentences=True)
    [first] = text.add(Spoken("How are you doing today?"))
    assert first.ready
    [second] = text.add(Spoken("\n\nI am fine."))
    assert (second.pause, second.take(), second.ready) == (PARAGRAPH_PAUSE, "I am fine.", False)
    text.end()
    assert (second.ready, text.pause) == (True, 0.0)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_live_text_without_sentences_is_split_at_clauses_or_words(size: int) -> None:
    clauses = split(*deltas("and so it went on and on, " * 8, size))
    assert {pause for pause, _ in clauses[1:]} == {CLAUSE_PAUSE}
    assert all(text.endswith("on,") and len(text) < 1.5 * LONGEST for _, text in clauses)
    words = split(*deltas("word " * 80, size))
    assert len(words) > 2
    assert all(len(text) <= 1.5 * LONGEST + 5 for _, text in words)


def test_an_abbreviation_does_not_end_a_piece() -> None:
    text = "They all came to the meeting of the board with Mr. Miller and his wife."
    assert split(*deltas(text, 3)) == [(0.0, text)]


def test_chinese_sentences_end_pieces_without_spaces() -> None:
    sentence = "今天天气很好我们去公园吧今天天气很好。"
    assert split(*deltas(sentence * 2, 1)) == [(0.0, sentence), (SENTENCE_PAUSE, sentence)]


def test_requested_pauses_end_pieces() -> None:
    assert split(Spoken("One, two", (), (Pause(5, 0.4),)), Spoken(" three", (), (Pause(0, 1.0),))) == [
        (0.0, "One,"),
        (0.4, "two"),
        (1.0, "three"),
    ]


async def speak(speech: LiveSpeech, engine: StubEngine, text: list[Spoken]) -> np.ndarray:
    """The samples of a text that arrives while it is spoken."""
    started = False
    samples = []

    async def read() -> None:
        samples.extend([chunk.samples async for chunk in speech])

    for spoken in text:
        speech.add(spoken)
        if speech.ready and not started:
            speech.start(engine.submit, SpeechRequest("-", speaker="ava", sampling=SamplingParams(seed=5)))
            reading, started = asyncio.create_task(read()), True
        await asyncio.sleep(0)
    speech.finish()
    await reading
    return np.concatenate(samples)


@pytest.mark.parametrize("size", [1, 30, 1000])
async def test_pieces_are_joined_with_pauses_however_the_text_arrives(size: int) -> None:
    engine = StubEngine()
    speech = LiveSpeech(LONGEST)
    samples = await speak(speech, engine, deltas(SENTENCE * 3, size))
    assert [stream.text for stream in engine.streams] == [SENTENCE] * 3
    assert [stream.request.sampling.seed for stream in engine.streams] == [seed_of(5, number) for number in range(3)]
    gaps = np.diff(np.flatnonzero(samples)) - 1
    assert list(gaps[gaps > 0]) == [round(SENTENCE_PAUSE * 24_000)] * 2
    assert speech.completion == Completion(FinishReason.STOP, 3, 3)


async def test_a_pause_after_the_last_word_is_silence_at_the_end() -> None:
    speech = LiveSpeech(LONGEST)
    samples = await speak(speech, StubEngine(), [Spoken("Goodbye. ", (), (Pause(9, 2.0),))])
    assert len(samples) - np.flatnonzero(samples)[-1] - 1 == 48_000


async def test_cancel_ends_the_stream() -> None:
    engine = StubEngine()
    speech = LiveSpeech(LONGEST)
    speech.add(Spoken("Hello there, my friends"))
    speech.start(engine.submit, SpeechRequest("-", speaker="ava"))
    chunks = aiter(speech)
    await anext(chunks)
    speech.cancel()
    engine.streams[0].completion = Completion(FinishReason.CANCELLED, 0, 0)
    assert [chunk async for chunk in chunks] == []
    assert speech.completion.finish_reason is FinishReason.CANCELLED
