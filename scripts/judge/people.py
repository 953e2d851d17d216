"""Measures clones of people: ``python -m scripts.judge.people``. Needs the environment of ``make judge``.

Each reference is cloned by x-vector, and in context if the person speaks English. References are 3 to 25 s long, clean
and, at ten seconds, with white noise, other voices or music 10 dB below the voice. Faulty speech is made again, as the
server does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile
import torch

from engine.cloning.resampling import resample
from scripts.judge.backgrounds import BACKGROUNDS, Background, add_background
from scripts.judge.class_items import read_items
from scripts.judge.clips import Clip, read_clips
from scripts.judge.expected import faults
from scripts.judge.figures import corpus_wer, mean
from scripts.judge.fingerprint import fingerprint
from scripts.judge.human_recordings import FOLDER, LENGTHS, RATE, HumanRecording, human_recordings
from scripts.judge.paths import CACHE, ROOT
from scripts.judge.recordings import Recording, Row, run_judges
from scripts.judge.sound import Samples, read
from scripts.judge.synthesis import ExamUtterance, SpokenUtterance, synthesize
from server.references.transcript import with_stop
from server.text.frontend import spoken

_NOISY_LENGTH = 10
_BABBLE_VOICES = 6
_CLEAN = "clean"


@dataclass(frozen=True)
class Case:
    """A clone to judge. background: "clean" or one of BACKGROUNDS."""

    recording: HumanRecording
    background: str
    utterance: ExamUtterance


@dataclass(frozen=True)
class JudgedCase:
    """A clone and its scores. The similarity is to the clean reference."""

    case: Case
    spoken: SpokenUtterance
    row: Row


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--sentences", type=int, default=2, help="sentences that each clone speaks")
    parser.add_argument("--json", type=Path, help="also write every utterance to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    judged = judge_people(args.checkpoint, args.sentences)
    print(render(judged))
    if args.json:
        args.json.write_text(json.dumps([_details(each) for each in judged], indent=1, ensure_ascii=False))


def judge_people(checkpoint: Path, sentences: int) -> list[JudgedCase]:
    """Clone all references, and judge the clones."""
    recordings = human_recordings()
    heard = run_judges([Recording(each.file, "") for each in recordings], "moonshine")
    transcripts = [_sentence(row["moonshine"]["heard"]) for row in heard]
    texts = [item.spoken for item in read_items()["everyday"]]
    cases = [
        case
        for index, (recording, transcript) in enumerate(zip(recordings, transcripts, strict=True))
        for case in _cases(recording, transcript, [texts[(index + each) % len(texts)] for each in range(sentences)])
    ]
    out = CACHE / "spoken" / "people-served" / fingerprint(checkpoint)
    spoken = synthesize(checkpoint, [case.utterance for case in cases], out, guards=True)
    rows = run_judges(
        [
            Recording(each.wav, case.utterance.text, case.recording.file)
            for case, each in zip(cases, spoken, strict=True)
        ],
        "moonshine,mos,speaker",
    )
    return [JudgedCase(*each) for each in zip(cases, spoken, rows, strict=True)]


def render(judged: Sequence[JudgedCase]) -> str:
    """Return the table: one row for each length, background and person."""
    lines = [f"{'reference':22}{'':10}{'clones':>7}{'similarity':>12}{'WER':>8}{'MOS':>6}{'faulty':>8}"]
    rows: list[tuple[str, Callable[[Case], bool]]] = [("all clean", lambda case: case.background == _CLEAN)]
    rows += [(f"{length} s", _is_clean_of(length)) for length in LENGTHS]
    rows += [(f"{_NOISY_LENGTH} s, {background}", _has(background)) for background in BACKGROUNDS]
    rows += [
        (person, _is_clean_person(person)) for person in dict.fromkeys(each.case.recording.person for each in judged)
    ]
    for name, belongs in rows:
        for in_context in (False, True):
            group = [each for each in judged if belongs(each.case) and each.case.utterance.in_context is in_context]
            if group:
                lines.append(_line(name, "in context" if in_context else "x-vector", group))
    return "\n".join(lines)


def _is_clean_of(length: int) -> Callable[[Case], bool]:
    return lambda case: case.background == _CLEAN and case.recording.seconds == length


def _has(background: str) -> Callable[[Case], bool]:
    return lambda case: case.background == background


def _is_clean_person(person: str) -> Callable[[Case], bool]:
    return lambda case: case.background == _CLEAN and case.recording.person == person


def _line(name: str, mode: str, group: Sequence[JudgedCase]) -> str:
    rows = [each.row for each in group]
    rate, similarity, mos = corpus_wer(rows, "moonshine"), mean(rows, "similarity"), mean(rows, "mos")
    faulty = sum(bool(_faults(each)) for each in group)
    return f"{name:22}{mode:10}{len(group):7}{similarity or 0:12.2f}{100 * (rate or 0):6.1f} %{mos or 0:6.2f}{faulty:8}"


def _faults(each: JudgedCase) -> list[str]:
    return faults(each.row, stopped=each.spoken.stopped)


def _cases(recording: HumanRecording, transcript: str, texts: Sequence[str]) -> list[Case]:
    files: dict[str, Path] = {_CLEAN: recording.file}
    if recording.seconds == _NOISY_LENGTH:
        files |= {background: _noisy(recording, background) for background in BACKGROUNDS}
    modes = (False, True) if recording.english and transcript else (False,)
    return [
        Case(
            recording,
            background,
            ExamUtterance(text, seed=1, reference=Clip(file, recording.person, transcript), in_context=in_context),
        )
        for background, file in files.items()
        for in_context in modes
        for text in texts
    ]


def _noisy(recording: HumanRecording, background: Background) -> Path:
    file = FOLDER / "noisy" / f"{recording.file.stem}-{background}.wav"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        samples, rate = read(recording.file)
        soundfile.write(file, add_background(samples, rate, background, _babble_voices()), rate)
    return file


def _babble_voices() -> list[Samples]:
    """Return recordings of the teacher's voices at ``RATE``."""
    voices = [read(clip.file) for clip in read_clips().unseen[:_BABBLE_VOICES]]
    return [resample(samples, rate, RATE) for samples, rate in voices]


def _sentence(heard: str) -> str:
    """Return a transcript as the server prepares it: in spoken words, with a final mark. Empty without words."""
    words = spoken(heard, "english").text.strip()
    return with_stop(words) if any(map(str.isalnum, words)) else ""


def _details(each: JudgedCase) -> dict[str, object]:
    case = each.case
    return {
        "person": case.recording.person,
        "seconds": case.recording.seconds,
        "background": case.background,
        "in_context": case.utterance.in_context,
        "faults": _faults(each),
    } | each.row


if __name__ == "__main__":
    main()
