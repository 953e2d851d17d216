"""Runs the judges on recordings. Results are cached by the bytes of the recording."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.signal import resample_poly

from scripts.judge.distill_mos import DistillMos
from scripts.judge.ecapa import SpeakerJudge
from scripts.judge.moonshine import Moonshine
from scripts.judge.paths import JUDGMENTS, PACKAGE
from scripts.judge.sound import JUDGE_RATE, Samples, read
from scripts.judge.weights import weights
from scripts.judge.whisper import Whisper

JudgeName = Literal["moonshine", "whisper", "mos", "speaker"]
JUDGES: tuple[JudgeName, ...] = get_args(JudgeName)
_SOURCES = ("distill_mos", "ecapa", "judging", "moonshine", "sound", "weights", "whisper")
Judgments = dict[str, Any]
"""moonshine, whisper: the recognized words. mos: 1 to 5. speaker: unit vector [192]. Only of the selected judges."""


def judge_files(
    files: Iterable[Path], judges: Sequence[JudgeName] = JUDGES, *, processes: int = 2
) -> dict[Path, Judgments]:
    """Judge all recordings in parallel. Prints the progress."""
    distinct = list(dict.fromkeys(files))
    weights()
    judgments: dict[Path, Judgments] = {}
    with ProcessPoolExecutor(processes, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for file, result in zip(distinct, pool.map(_judge_file, distinct, [judges] * len(distinct)), strict=True):
            judgments[file] = result
            if len(judgments) % 25 == 0:
                print(f"judged {len(judgments)} of {len(distinct)}", file=sys.stderr, flush=True)
    return judgments


def _judge_file(file: Path, judges: Sequence[JudgeName]) -> Judgments:
    cached = JUDGMENTS / _version() / f"{hashlib.sha256(file.read_bytes()).hexdigest()}.json"
    judgments: Judgments = json.loads(cached.read_text()) if cached.exists() else {}
    missing = [judge for judge in judges if judge not in judgments]
    if missing:
        samples = _for_judges(*read(file))
        judgments |= {judge: _judge(judge)(samples) for judge in missing}
        _write_cache(cached, judgments)
    return judgments


@cache
def _version() -> str:
    """Return a hash of the judges' source. Results of other versions are not used."""
    source = b"".join((PACKAGE / f"{name}.py").read_bytes() for name in _SOURCES)
    return hashlib.sha256(source).hexdigest()[:12]


def _for_judges(samples: Samples, rate: int) -> Samples:
    """Resample to 16 kHz with a filter as gentle as Distill-MOS's own. A steep one changes its score by 0.08."""
    if rate == JUDGE_RATE:
        return samples
    return np.asarray(resample_poly(samples, JUDGE_RATE, rate), np.float32)


def _write_cache(file: Path, judgments: Judgments) -> None:
    """Write the file atomically, because another process may write the same one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{id(judgments)}.part")
    part.write_text(json.dumps(judgments))
    part.replace(file)


@cache
def _judge(name: JudgeName) -> Callable[[Samples], Any]:
    folder = weights()
    match name:
        case "moonshine":
            return Moonshine(folder / "moonshine")
        case "whisper":
            return Whisper(folder / "whisper")
        case "mos":
            return DistillMos()
        case "speaker":
            speaker = SpeakerJudge(folder / "ecapa.ckpt")
            return lambda samples: speaker(samples).tolist()
