"""What a checkpoint is asked to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.judge.clips import Clip, Clips
from scripts.judge.speaking import Utterance

MAIN_VOICES = ("ava", "adam", "emma", "george")
_FURTHER_SENTENCES = 8
"""Said by each voice beside the main ones."""


@dataclass(frozen=True)
class Size:
    """sentences: of the held-out ones; seeds: how often each is said; clones: speakers; clone_sentences: by each."""

    sentences: int = 100
    seeds: int = 3
    clones: int = 20
    clone_sentences: int = 2


QUICK = Size(sentences=30, seeds=1, clones=6, clone_sentences=1)


@dataclass(frozen=True)
class Exam:
    """main: the held-out sentences by the main voices in turn; the clones by x-vector and in context."""

    main: list[Utterance]
    further: list[Utterance]
    by_vector: list[Utterance]
    in_context: list[Utterance]


def exam(sentences: Sequence[str], clips: Clips, size: Size) -> Exam:
    """The same for the same sentences, clips and size."""
    asked = sentences[: size.sentences]
    others = [voice for voice in clips.named if voice not in MAIN_VOICES]
    clones = [
        (clip, asked[(index * size.clone_sentences + each) % len(asked)])
        for index, clip in enumerate(clips.unseen[: size.clones])
        for each in range(size.clone_sentences)
    ]
    return Exam(
        main=_in_turn(asked, size.seeds),
        further=[Utterance(text, seed=1, speaker=voice) for voice in others for text in asked[:_FURTHER_SENTENCES]],
        by_vector=[_clone(text, clip, in_context=False) for clip, text in clones],
        in_context=[_clone(text, clip, in_context=True) for clip, text in clones],
    )


def _in_turn(sentences: Sequence[str], seeds: int) -> list[Utterance]:
    """Every sentence by another voice with every seed."""
    return [
        Utterance(text, seed=seed, speaker=MAIN_VOICES[(index + seed) % len(MAIN_VOICES)])
        for seed in range(1, seeds + 1)
        for index, text in enumerate(sentences)
    ]


def _clone(text: str, clip: Clip, *, in_context: bool) -> Utterance:
    return Utterance(text, seed=1, reference=clip, in_context=in_context)
