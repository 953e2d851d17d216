"""Which utterances of the engine a text and its pauses become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.protocol.request import EngineInfo, SamplingParams, SpeechRequest, Voice
from engine.protocol.speech_profile import SpeechProfile
from server.long_text.pieces import PARAGRAPH_PAUSE, SENTENCE_PAUSE, longest_piece
from server.long_text.segments import TURN_PAUSE, Turn, is_one_segment, seed_of, segments
from server.request_models.speech import Split
from server.text.frontend import Pause

INFO = EngineInfo(
    model="m",
    tasks=("CustomVoice", "Base"),
    speakers=("ava",),
    languages=("english",),
    embedding_width=4,
    in_context=True,
    trained=True,
    context=4096,
    device="cpu",
    profile=SpeechProfile(piece_characters=100),
)
LONGEST = longest_piece(INFO)
SENTENCE = "It was a dark and stormy night in the old town."


def request(text: str, speaker: str | None = "ava", **fields: Any) -> SpeechRequest:
    return SpeechRequest(text, speaker=speaker, language="english", **fields)


def plan(*turns: Turn, split: Split = "auto", longest: int = LONGEST) -> list[tuple[float, str | None]]:
    """The pause and the text of each segment."""
    return [
        (segment.pause, segment.request.text if segment.request else None)
        for segment in segments(turns, split, longest)
    ]


def test_a_text_that_fits_is_submitted_as_it_is() -> None:
    given = request("One. \n\n Two. ", sampling=SamplingParams(seed=5))
    assert is_one_segment([Turn(given)], "auto", LONGEST)
    (only,) = segments([Turn(given)], "auto", LONGEST)
    assert (only.pause, only.request and only.request.text) == (0.0, given.text)


def test_a_text_above_the_length_of_the_checkpoint_is_split_and_a_short_one_is_not() -> None:
    long = Turn(request(f"{SENTENCE} {SENTENCE} {SENTENCE}"))
    assert not is_one_segment([long], "auto", LONGEST)
    assert plan(long) == [(0.0, f"{SENTENCE} {SENTENCE}"), (SENTENCE_PAUSE, SENTENCE)]
    assert plan(long, split="none") == [(0.0, long.request.text)]
    assert plan(long, split="sentence") == [(0.0, SENTENCE), *[(SENTENCE_PAUSE, SENTENCE)] * 2]
    assert plan(long, longest=300) == [(0.0, long.request.text)]


def test_a_small_context_gives_small_pieces() -> None:
    texts = [
        text for _, text in plan(Turn(request(f"{SENTENCE} " * 3)), longest=longest_piece(replace(INFO, context=400)))
    ]
    assert texts == [SENTENCE] * 3


def test_a_designed_voice_speaks_one_utterance() -> None:
    designed = Turn(request(SENTENCE * 9, speaker=None), (Pause(5, 1.0),))
    assert is_one_segment([designed], "auto", LONGEST)
    assert not is_one_segment(
        [Turn(request(SENTENCE * 9, speaker=None, voice=Voice(np.zeros(4, np.float32))))], "auto", LONGEST
    )


def test_requested_pauses_split_a_short_text_and_have_their_length() -> None:
    assert plan(Turn(request("One, two, three."), (Pause(5, 0.4), Pause(10, 3.0)))) == [
        (0.0, "One,"),
        (0.4, "two,"),
        (3.0, "three."),
    ]


def test_requested_pauses_at_the_ends_and_in_a_row() -> None:
    pauses = (Pause(0, 1.0), Pause(6, 0.5), Pause(6, 0.25), Pause(10, 2.0))
    assert plan(Turn(request("Hello world"[:10]), pauses)) == [(1.0, "Hello"), (0.75, "worl"), (2.0, None)]
    assert plan(Turn(request("Hello"), (Pause(5, 8.0), Pause(5, 8.0)))) == [(0.0, "Hello"), (10.0, None)]


def test_turns_are_apart_by_a_pause_unless_one_is_requested() -> None:
    first, second = Turn(request("Hello.")), Turn(request("Good morning."))
    assert plan(first, second) == [(0.0, "Hello."), (TURN_PAUSE, "Good morning.")]
    late = Turn(request("Good morning."), (Pause(0, 2.0),))
    ending = Turn(request("Hello."), (Pause(6, 1.0),))
    assert plan(first, late) == [(0.0, "Hello."), (2.0, "Good morning.")]
    assert plan(ending, late) == [(0.0, "Hello."), (3.0, "Good morning.")]


@pytest.mark.parametrize("seed", [None, 7])
def test_each_segment_has_the_voice_of_its_turn_and_a_derived_seed(seed: int | None) -> None:
    voice = Voice(np.zeros(4, np.float32))
    sampling = SamplingParams(seed=seed, top_k=3)
    turns = [
        Turn(request(f"{SENTENCE} {SENTENCE} {SENTENCE}", sampling=sampling)),
        Turn(request(SENTENCE, speaker=None, voice=voice, sampling=sampling)),
    ]
    requests = [segment.request for segment in segments(turns, "auto", LONGEST) if segment.request]
    assert [each.speaker for each in requests] == ["ava", "ava", None]
    assert requests[2].voice is voice
    assert [each.sampling.seed for each in requests] == [seed_of(seed, number) for number in range(3)]
    assert {each.sampling.top_k for each in requests} == {3}


def test_planning_is_lazy() -> None:
    book = Turn(request(f"{SENTENCE} " * 5000))
    assert next(segments([book], "auto", LONGEST)).pause == 0


def test_short_paragraphs_are_separate_segments_with_a_pause() -> None:
    text = "This is the first paragraph.\n\nThis is the second one."
    spoken = list(segments([Turn(SpeechRequest(text=text, speaker="ava"))], "auto", 200))
    assert [segment.request and segment.request.text for segment in spoken] == text.split("\n\n")
    assert [segment.pause for segment in spoken] == [0.0, PARAGRAPH_PAUSE]
