"""The recordings of an exam in groups, and the rows that the judges gave each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.judge.clips import Clip, Clips
from scripts.judge.codec_row import clip_recordings, through_codec
from scripts.judge.exam import Exam
from scripts.judge.recordings import Recording, Row, judged
from scripts.judge.speaking import Device, Spoken, speak


@dataclass(frozen=True)
class Scored:
    """An utterance of the checkpoint and what the judges say of it."""

    spoken: Spoken
    row: Row


@dataclass(frozen=True)
class Parts:
    """As in the exam; original: the teacher's clips; decoded: the same after the codec."""

    main: list[Scored]
    further: list[Scored]
    by_vector: list[Scored]
    in_context: list[Scored]
    original: list[Row]
    decoded: list[Row]


def hold(
    checkpoint: Path, exam: Exam, clips: Clips, codec_clips: Sequence[Clip], out: Path, device: Device = "cpu"
) -> Parts:
    """Speak everything, then have everything judged."""
    groups = [exam.main, exam.further, exam.by_vector, exam.in_context]
    spoken = speak(checkpoint, [utterance for group in groups for utterance in group], out, device)
    recordings = [_beside(each, clips, index) for index, each in enumerate(spoken)]
    originals = clip_recordings(codec_clips)
    decoded = through_codec(checkpoint, originals, out / "codec")
    rows = judged([*recordings, *originals, *decoded])
    scored = iter([Scored(each, row) for each, row in zip(spoken, rows, strict=False)])
    main, further, by_vector, in_context = ([next(scored) for _ in group] for group in groups)
    rest = rows[len(spoken) :]
    return Parts(main, further, by_vector, in_context, rest[: len(originals)], rest[len(originals) :])


def _beside(spoken: Spoken, clips: Clips, index: int) -> Recording:
    """With the recording that its speaker is compared with: one of the teacher's, in turn, or the one it clones."""
    utterance = spoken.utterance
    if utterance.reference is not None:
        reference = utterance.reference.file
    else:
        own = clips.named[str(utterance.speaker)]
        reference = own[index % len(own)].file
    return Recording(spoken.wav, utterance.text, reference)
