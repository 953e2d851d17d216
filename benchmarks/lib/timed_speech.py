"""Recordings with known word times: a folder of .ogg files and ``words.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE

FOLDER = Path(__file__).parents[1] / "data" / "words"
"""Held-out speech of the teacher of the pocket checkpoint."""
_INDEX = "words.jsonl"


@dataclass(frozen=True, slots=True, eq=False)
class TimedSpeech:
    """A recording. samples: int16 [n] at 24 kHz. times: [words, 2], start and end of each word in seconds."""

    text: str
    speaker: str
    samples: NDArray[np.int16]
    times: NDArray[np.float64]


def write_timed_speech(folder: Path, recordings: Sequence[TimedSpeech]) -> None:
    """Write recordings as Ogg Vorbis, with their texts and word times."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, each in enumerate(recordings):
        name = f"{number:02d}.ogg"
        soundfile.write(folder / name, each.samples, SAMPLE_RATE, format="OGG", subtype="VORBIS")
        times = np.round(each.times, 3).tolist()
        lines.append(json.dumps({"file": name, "speaker": each.speaker, "text": each.text, "times": times}) + "\n")
    (folder / _INDEX).write_text("".join(lines), encoding="utf-8")


def read_timed_speech(folder: Path = FOLDER) -> list[TimedSpeech]:
    """Read the recordings of a folder."""
    recordings = []
    for line in (folder / _INDEX).read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        samples, _ = soundfile.read(folder / fields["file"], dtype="int16")
        recordings.append(TimedSpeech(fields["text"], fields["speaker"], samples, np.array(fields["times"])))
    return recordings
