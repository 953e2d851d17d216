"""The utterances that a checkpoint must speak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.judge.clips import Clip, Clips
from scripts.judge.synthesis import ExamUtterance

MAIN_VOICES = ("ava", "adam", "emma", "george")
_FURTHER_SENTENCES = 8
"""Number of sentences for each other voice."""


@dataclass(frozen=True)
class Size:
    """The size of an exam.

    sentences: number of held-out sentences. seeds: number of times that each is spoken. clones: number of cloned
    speakers. clone_sentences: sentences by each of them.
    """

    sentences: int = 100
    seeds: int = 3
    clones: int = 20
    clone_sentences: int = 2


QUICK = Size(sentences=30, seeds=1, clones=6, clone_sentences=1)


@dataclass(frozen=True)
class Exam:
    """All utterances of an exam.

    main: the held-out sentences, with the main voices in rotation. further: some of them with the other voices.
    by_vector, in_context: clones by x-vector and in context.
    """

    main: list[ExamUtterance]
    further: list[ExamUtterance]
    by_vector: list[ExamUtterance]
    in_context: list[ExamUtterance]


def exam(sentences: Sequence[str], clips: Clips, size: Size) -> Exam:
    """Return the exam. It is a function of the sentences, clips and size."""
    chosen = sentences[: size.sentences]
    others = [voice for voice in clips.named if voice not in MAIN_VOICES]
    clones = [
        (clip, chosen[(index * size.clone_sentences + each) % len(chosen)])
        for index, clip in enumerate(clips.unseen[: size.clones])
        for each in range(size.clone_sentences)
    ]
    return Exam(
        main=_rotate_voices(chosen, size.seeds),
        further=[
            ExamUtterance(text, seed=1, speaker=voice) for voice in others for text in chosen[:_FURTHER_SENTENCES]
        ],
        by_vector=[_clone(text, clip, in_context=False) for clip, text in clones],
        in_context=[_clone(text, clip, in_context=True) for clip, text in clones],
    )


def _rotate_voices(sentences: Sequence[str], seeds: int) -> list[ExamUtterance]:
    """Return every sentence once per seed, each time with another voice."""
    return [
        ExamUtterance(text, seed=seed, speaker=MAIN_VOICES[(index + seed) % len(MAIN_VOICES)])
        for seed in range(1, seeds + 1)
        for index, text in enumerate(sentences)
    ]


def _clone(text: str, clip: Clip, *, in_context: bool) -> ExamUtterance:
    return ExamUtterance(text, seed=1, reference=clip, in_context=in_context)
