"""What the judges make of recordings; kept by the recording's bytes, so that nothing is heard twice."""

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
from scripts.judge.places import HEARD, PACKAGE
from scripts.judge.sound import JUDGE_RATE, Samples, read
from scripts.judge.weights import weights
from scripts.judge.whisper import Whisper

JudgeName = Literal["moonshine", "whisper", "mos", "speaker"]
JUDGES: tuple[JudgeName, ...] = get_args(JudgeName)
_SOURCES = ("distill_mos", "ecapa", "hearing", "moonshine", "sound", "weights", "whisper")
Heard = dict[str, Any]
"""moonshine, whisper: the words; mos: 1 to 5; speaker: unit vector [192]. Only of the judges who were asked."""


def hear(files: Iterable[Path], judges: Sequence[JudgeName] = JUDGES, *, processes: int = 2) -> dict[Path, Heard]:
    """All recordings, several at once. Prints how far it is."""
    distinct = list(dict.fromkeys(files))
    weights()
    heard: dict[Path, Heard] = {}
    with ProcessPoolExecutor(processes, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for file, result in zip(distinct, pool.map(_hear_one, distinct, [judges] * len(distinct)), strict=True):
            heard[file] = result
            if len(heard) % 25 == 0:
                print(f"heard {len(heard)} of {len(distinct)}", file=sys.stderr, flush=True)
    return heard


def _hear_one(file: Path, judges: Sequence[JudgeName]) -> Heard:
    kept = HEARD / _version() / f"{hashlib.sha256(file.read_bytes()).hexdigest()}.json"
    heard: Heard = json.loads(kept.read_text()) if kept.exists() else {}
    missing = [judge for judge in judges if judge not in heard]
    if missing:
        samples = _for_judges(*read(file))
        heard |= {judge: _judge(judge)(samples) for judge in missing}
        _keep(kept, heard)
    return heard


@cache
def _version() -> str:
    """Of the judges: what others heard does not count."""
    source = b"".join((PACKAGE / f"{name}.py").read_bytes() for name in _SOURCES)
    return hashlib.sha256(source).hexdigest()[:12]


def _for_judges(samples: Samples, rate: int) -> Samples:
    """At 16 kHz, with a filter as soft as Distill-MOS's own: a steep one is worth 0.08 of a score."""
    if rate == JUDGE_RATE:
        return samples
    return np.asarray(resample_poly(samples, JUDGE_RATE, rate), np.float32)


def _keep(file: Path, heard: Heard) -> None:
    """Renamed into place: another process may hear the same."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{id(heard)}.part")
    part.write_text(json.dumps(heard))
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
