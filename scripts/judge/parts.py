"""Runs an exam: speaks its utterances and has them judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.judge.clips import Clip, Clips
from scripts.judge.codec_row import clip_recordings, through_codec
from scripts.judge.exam import Exam
from scripts.judge.recordings import Recording, Row, run_judges
from scripts.judge.synthesis import Device, SpokenUtterance, synthesize


@dataclass(frozen=True)
class ScoredUtterance:
    """An utterance of the checkpoint, and its scores."""

    spoken: SpokenUtterance
    row: Row


@dataclass(frozen=True)
class ExamResults:
    """The results of an exam, in its groups. original: the teacher's clips. decoded: the same clips after the codec."""

    main: list[ScoredUtterance]
    further: list[ScoredUtterance]
    by_vector: list[ScoredUtterance]
    in_context: list[ScoredUtterance]
    original: list[Row]
    decoded: list[Row]


def run_exam(
    checkpoint: Path, exam: Exam, clips: Clips, codec_clips: Sequence[Clip], out: Path, device: Device = "cpu"
) -> ExamResults:
    """Speak all utterances, then judge all recordings."""
    groups = [exam.main, exam.further, exam.by_vector, exam.in_context]
    spoken = synthesize(checkpoint, [utterance for group in groups for utterance in group], out, device)
    recordings = [_recording_of(each, clips, index) for index, each in enumerate(spoken)]
    originals = clip_recordings(codec_clips)
    decoded = through_codec(checkpoint, originals, out / "codec")
    rows = run_judges([*recordings, *originals, *decoded])
    scored = iter([ScoredUtterance(each, row) for each, row in zip(spoken, rows, strict=False)])
    main, further, by_vector, in_context = ([next(scored) for _ in group] for group in groups)
    rest = rows[len(spoken) :]
    return ExamResults(main, further, by_vector, in_context, rest[: len(originals)], rest[len(originals) :])


def _recording_of(spoken: SpokenUtterance, clips: Clips, index: int) -> Recording:
    """Return the recording and its reference: one of the teacher's clips in rotation, or the recording it clones."""
    utterance = spoken.utterance
    if utterance.reference is not None:
        reference = utterance.reference.file
    else:
        voice_clips = clips.named[str(utterance.speaker)]
        reference = voice_clips[index % len(voice_clips)].file
    return Recording(spoken.wav, utterance.text, reference)
